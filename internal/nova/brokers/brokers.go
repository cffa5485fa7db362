// Package brokers parses the address of Nova's message broker: an AMQP URL, or the
// transport_url of an OpenStack service's configuration.
package brokers

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Broker is one node of the message broker.
type Broker struct{ amqp.URI }

// String describes the broker, without credentials; those are in the URI's own String.
func (b Broker) String() string {
	return fmt.Sprintf("%s, virtual host %s", net.JoinHostPort(b.Host, strconv.Itoa(b.Port)), b.Vhost)
}

// Parse reads amqp://, amqps:// and oslo.messaging's rabbit:// URLs. Several nodes may be
// in one URL (rabbit://u:p@h1:5672,u:p@h2:5672/vhost) or in several URLs separated by
// commas. The characters ":/?@,%" in a user name, a password or a virtual host must be
// percent-encoded. The error never contains a password.
func Parse(text string) ([]Broker, error) {
	if text == "" {
		return nil, errors.New("no URL")
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return nil, errors.New("it contains a space or a control character")
	}
	// A comma separates nodes of one URL, or URLs.
	var urls []string
	for _, part := range strings.Split(text, ",") {
		if len(urls) == 0 || strings.Contains(part, "://") {
			urls = append(urls, part)
			continue
		}
		urls[len(urls)-1] += "," + part
	}
	var all []Broker
	for _, one := range urls {
		nodes, err := parseOne(one)
		if err != nil {
			return nil, err
		}
		all = append(all, nodes...)
	}
	return all, nil
}

func parseOne(text string) ([]Broker, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	rest, query, _ := strings.Cut(rest, "?")
	common, err := certificates(scheme, query)
	if err != nil {
		return nil, err
	}
	authorities, path, _ := strings.Cut(rest, "/")
	var nodes []Broker
	named := 0
	for _, authority := range strings.Split(authorities, ",") {
		if strings.Contains(authority, "@") {
			named++
		}
		// A # in a password begins no fragment.
		at, err := url.Parse(strings.ReplaceAll(common.Scheme+"://"+authority+"/"+path, "#", "%23"))
		var uri amqp.URI
		if err == nil && at.Hostname() != "" {
			uri, err = amqp.ParseURI(at.String())
		}
		// The errors of url quote the text, and with a password that is not encoded a host or a path is a part of it.
		if err != nil || uri.Port < 1 || uri.Port > 65535 || strings.Contains(path, "@") {
			return nil, errors.New("a broker is not USER:PASSWORD@HOST:PORT, or not percent-encoded correctly")
		}
		if at.User != nil { // the library's default is the password of another user, guest
			uri.Password, _ = at.User.Password()
		}
		uri.CACertFile, uri.CertFile, uri.KeyFile, uri.ServerName = common.CACertFile, common.CertFile, common.KeyFile,
			common.ServerName
		nodes = append(nodes, Broker{uri})
	}
	// oslo.messaging would try the others as guest, which is not useful.
	if named != 0 && named != len(nodes) {
		return nil, errors.New("some of its hosts have a user and a password, and some have none")
	}
	return nodes, nil
}

// certificates reads the scheme and the query, with RabbitMQ's names and oslo.messaging's.
// It ignores other keys, which do not concern the connection.
func certificates(scheme, query string) (amqp.URI, error) {
	u := amqp.URI{Scheme: "amqp"}
	values, err := url.ParseQuery(query)
	if err != nil {
		return u, errors.New("the text after ? is not key=value&key=value")
	}
	switch ssl := strings.ToLower(values.Get("ssl")); {
	case !slices.Contains([]string{"amqp", "amqps", "rabbit"}, scheme):
		return u, errors.New("it does not begin with amqp://, amqps:// or rabbit://")
	case scheme == "amqps", slices.Contains([]string{"1", "true", "yes", "on", "t", "y"}, ssl):
		u.Scheme = "amqps"
	case !slices.Contains([]string{"", "0", "false", "no", "off", "f", "n"}, ssl):
		return u, errors.New("ssl must be true or false")
	}
	u.CACertFile = cmp.Or(values.Get("cacertfile"), values.Get("ssl_ca_file"))
	u.CertFile = cmp.Or(values.Get("certfile"), values.Get("ssl_cert_file"))
	u.KeyFile = cmp.Or(values.Get("keyfile"), values.Get("ssl_key_file"))
	u.ServerName = values.Get("server_name_indication")
	switch {
	case u.Scheme == "amqp" && u.CACertFile+u.CertFile+u.KeyFile+u.ServerName != "":
		return u, errors.New("it names certificates, but does not ask for TLS (amqps://, or ssl=true)")
	case (u.CertFile == "") != (u.KeyFile == ""):
		return u, errors.New("a client certificate needs both certfile and keyfile")
	}
	return u, nil
}
