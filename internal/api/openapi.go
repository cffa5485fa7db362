package api

import (
	"context"
	_ "embed"
)

// The document is made from the routes.
//
//go:generate go test -run TestTheDocumentIsFresh -update .
//go:embed openapi.json
var openAPI []byte

// encoded is an answer that is JSON already.
type encoded []byte

func getOpenAPI(context.Context, *call) (any, error) { return encoded(openAPI), nil }
