package brokers_test

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"burnish/internal/nova/brokers"
)

func TestForms(t *testing.T) {
	of := func(scheme, host string, port int, user, password, vhost string) brokers.Broker {
		return brokers.Broker{URI: amqp.URI{Scheme: scheme, Host: host, Port: port, Username: user, Password: password,
			Vhost: vhost}}
	}
	plain := func(host string, port int, user, password, vhost string) brokers.Broker {
		return of("amqp", host, port, user, password, vhost)
	}
	secure := func(host string, port int, user, password, vhost string) brokers.Broker {
		return of("amqps", host, port, user, password, vhost)
	}
	withCA, withAll := secure("h1", 5671, "u", "p", "v"), secure("h1", 5671, "guest", "guest", "v")
	withCA.CACertFile = "/a/ca.pem"
	withAll.CACertFile, withAll.CertFile, withAll.KeyFile, withAll.ServerName = "/ca", "/c", "/k", "rabbit"
	for text, want := range map[string][]brokers.Broker{
		"amqp://h1":                           {plain("h1", 5672, "guest", "guest", "/")},
		"amqp://h1/":                          {plain("h1", 5672, "guest", "guest", "/")},
		"rabbit://u:p@h1:5673/":               {plain("h1", 5673, "u", "p", "/")},
		"rabbit://u:p@h1//":                   {plain("h1", 5672, "u", "p", "/")},
		"amqp://u:p@h1/%2F":                   {plain("h1", 5672, "u", "p", "/")},
		"amqp://u:p@h1/nova%2Fx":              {plain("h1", 5672, "u", "p", "nova/x")},
		"amqp://a%40b:%3Ap%2F%2C%25@h1/nova":  {plain("h1", 5672, "a@b", ":p/,%", "nova")},
		"amqp://u:p#q@h1/nova":                {plain("h1", 5672, "u", "p#q", "nova")},
		"amqp://u@h1":                         {plain("h1", 5672, "u", "", "/")},
		"amqp://u:@h1":                        {plain("h1", 5672, "u", "", "/")},
		"amqp://guest@h1":                     {plain("h1", 5672, "guest", "", "/")},
		"amqp://u:guest@h1/a%20b":             {plain("h1", 5672, "u", "guest", "a b")},
		"amqp://u:p@[fd00::1]:5673/v":         {plain("fd00::1", 5673, "u", "p", "v")},
		"amqp://[::1]":                        {plain("::1", 5672, "guest", "guest", "/")},
		"rabbit://u:p@h1:5672,u:q@h2:5673/v":  {plain("h1", 5672, "u", "p", "v"), plain("h2", 5673, "u", "q", "v")},
		"rabbit://h1,h2,10.0.0.3:5/v":         {plain("h1", 5672, "guest", "guest", "v"), plain("h2", 5672, "guest", "guest", "v"), plain("10.0.0.3", 5, "guest", "guest", "v")},
		"amqp://u:p@h1/v,amqps://u:p@h2/w":    {plain("h1", 5672, "u", "p", "v"), secure("h2", 5671, "u", "p", "w")},
		"amqps://h1":                          {secure("h1", 5671, "guest", "guest", "/")},
		"rabbit://u:p@h1/?ssl=1":              {secure("h1", 5671, "u", "p", "/")},
		"rabbit://u:p@h1/?ssl=no&heartbeat=5": {plain("h1", 5672, "u", "p", "/")},
		"rabbit://u:p@h1:5671/v?ssl=True&ssl_ca_file=/a/ca.pem":                            {withCA},
		"amqps://h1/v?cacertfile=/ca&certfile=/c&keyfile=/k&server_name_indication=rabbit": {withAll},
	} {
		got, err := brokers.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		for _, b := range got {
			dialed, err := amqp.ParseURI(b.URI.String())
			require.NoError(t, err, text)
			require.Equal(t, b.URI, dialed, text)
		}
	}
}

// The error names the mistake, and never contains the password.
func TestMistakes(t *testing.T) {
	const wrong = "a broker is not USER:PASSWORD@HOST:PORT"
	for text, says := range map[string]string{
		"":                                "no URL",
		"h1:5672":                         "does not begin with amqp://",
		"http://u:secret@h1":              "does not begin with amqp://",
		"amqp:/u:secret@h1":               "does not begin with amqp://",
		"amqp://":                         wrong,
		"amqp://u:secret@":                wrong,
		"amqp://u:secret@:5672":           wrong,
		"amqp://u:secret@h1:port":         wrong,
		"amqp://u:secret@h1:70000":        wrong,
		"amqp://u:sec ret@h1":             "space",
		"amqp://u:secret%zz@h1":           wrong,
		"amqp://u:secret/more@h1":         wrong,
		"amqp://u:5672/secret@h1":         wrong,
		"amqp://u:p,secret@h1":            wrong,
		"amqp://u:secret@h1/%zz":          wrong,
		"amqp://u:secret@[zz]":            wrong,
		"amqp://u:secret@[::1]5672":       wrong,
		"rabbit://u:secret@h1,h2/":        "some of its hosts",
		"rabbit://u:secret@h1,,u:s@h2/":   wrong,
		"rabbit://u:secret@h1/?ssl=maybe": "ssl",
		"amqp://h1/?cacertfile=/secret":   "does not ask for TLS",
		"amqps://h1/?certfile=/secret":    "key",
		"amqp://h1/?a;b=secret":           "key=value",
	} {
		_, err := brokers.Parse(text)
		require.ErrorContains(t, err, says, text)
		require.NotContains(t, err.Error(), "secret", text)
	}
}

func TestNamedWithoutCredentials(t *testing.T) {
	all, err := brokers.Parse("rabbit://u:secret@[::1]:5672/v")
	require.NoError(t, err)
	require.Equal(t, "[::1]:5672, virtual host v", all[0].String())
}
