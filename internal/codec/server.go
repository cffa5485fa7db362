package codec

import (
	"net/http"

	"go.temporal.io/sdk/converter"
)

// Handler decrypts and encrypts payloads for Temporal's Web UI in a browser, whose pages come from origin
// (SCHEME://HOST:PORT). Requests of other sites' pages are refused.
func (c *Codec) Handler(origin string) http.Handler {
	payloads := converter.NewPayloadCodecHTTPHandler(c)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from := r.Header.Get("Origin"); from != "" && from != origin {
			http.Error(w, "this codec answers pages of "+origin+" only", http.StatusForbidden)
			return
		}
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Namespace")
		w.Header().Set("Cache-Control", "no-store")
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		payloads.ServeHTTP(w, r)
	})
}
