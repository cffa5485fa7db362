// Package brokers parses the address of Nova's message broker: an AMQP URL, or the
// transport_url of an OpenStack service's configuration.
package brokers

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Broker is one node of the message broker.
type Broker struct {
	Host        string
	Port        int
	User        string
	Password    string
	VirtualHost string
	// TLS is nil for a connection without encryption.
	TLS *TLS
}

// TLS is what a URL says about certificates: paths of PEM files, and the name in the
// server's certificate (default: Host). Without CA, the system's authorities are used.
type TLS struct {
	CA, Cert, Key, ServerName string
}

// String describes the broker, without credentials.
func (b Broker) String() string {
	return fmt.Sprintf("%s, virtual host %s", b.Address(), b.VirtualHost)
}

// Address is host:port.
func (b Broker) Address() string { return net.JoinHostPort(b.Host, strconv.Itoa(b.Port)) }

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
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return nil, errors.New("it does not begin with amqp://, amqps:// or rabbit://")
	}
	common := Broker{Port: 5672, User: "guest", Password: "guest", VirtualHost: "/"}
	rest, query, _ := strings.Cut(rest, "?")
	var err error
	if common.TLS, err = certificates(scheme, query); err != nil {
		return nil, err
	}
	if common.TLS != nil {
		common.Port = 5671
	}
	authorities, path, _ := strings.Cut(rest, "/")
	if path != "" {
		if common.VirtualHost, err = url.PathUnescape(path); err != nil {
			return nil, errors.New("the virtual host is not percent-encoded correctly")
		}
	}
	var nodes []Broker
	named := 0
	for _, authority := range strings.Split(authorities, ",") {
		node, credentials, err := parseNode(common, authority)
		if err != nil {
			return nil, err
		}
		if credentials {
			named++
		}
		nodes = append(nodes, node)
	}
	// oslo.messaging would try the others as guest, which is not useful.
	if named != 0 && named != len(nodes) {
		return nil, errors.New("some of its hosts have a user and a password, and some have none")
	}
	return nodes, nil
}

func parseNode(common Broker, authority string) (node Broker, credentials bool, err error) {
	node = common
	place := authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		credentials = true
		user, password, _ := strings.Cut(authority[:at], ":")
		var err1, err2 error
		node.User, err1 = url.PathUnescape(user)
		node.Password, err2 = url.PathUnescape(password)
		// The errors of url quote the text.
		if err1 != nil || err2 != nil || strings.ContainsAny(password, ":@") || strings.Contains(user, "@") {
			return node, true, errors.New("the user or the password is not percent-encoded correctly")
		}
		place = authority[at+1:]
	}
	var host, port string
	if strings.HasPrefix(place, "[") {
		end := strings.Index(place, "]")
		if end < 0 || net.ParseIP(place[1:end]) == nil {
			return node, credentials, errors.New("the text in [] is not an IPv6 address")
		}
		host, port = place[1:end], place[end+1:]
		if port != "" && !strings.HasPrefix(port, ":") {
			return node, credentials, errors.New("the text after [] is not :port")
		}
		port = strings.TrimPrefix(port, ":")
	} else {
		host, port, _ = strings.Cut(place, ":")
	}
	if host == "" {
		return node, credentials, errors.New("it contains no host")
	}
	// Not quoted in the error: with a password that is not encoded, it is a part of that.
	if net.ParseIP(host) == nil && strings.ContainsFunc(host, func(r rune) bool {
		return r != '.' && r != '-' && r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) {
		return node, credentials, errors.New("the host is not a valid host name")
	}
	node.Host = host
	if port != "" {
		if node.Port, err = strconv.Atoi(port); err != nil || node.Port < 1 || node.Port > 65535 {
			return node, credentials, errors.New("the port must be a number from 1 to 65535")
		}
	}
	return node, credentials, nil
}

// certificates reads the scheme and the query, with RabbitMQ's names and oslo.messaging's.
// It ignores other keys, which do not concern the connection.
func certificates(scheme, query string) (*TLS, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("the text after ? is not key=value&key=value")
	}
	first := func(names ...string) string {
		for _, name := range names {
			if value := values.Get(name); value != "" {
				return value
			}
		}
		return ""
	}
	wanted := false
	switch scheme {
	case "amqps":
		wanted = true
	case "amqp", "rabbit":
		switch value := strings.ToLower(values.Get("ssl")); {
		case slices.Contains([]string{"1", "true", "yes", "on", "t", "y"}, value):
			wanted = true
		case !slices.Contains([]string{"", "0", "false", "no", "off", "f", "n"}, value):
			return nil, errors.New("ssl must be true or false")
		}
	default:
		return nil, errors.New("it does not begin with amqp://, amqps:// or rabbit://")
	}
	t := &TLS{
		CA:         first("cacertfile", "ssl_ca_file"),
		Cert:       first("certfile", "ssl_cert_file"),
		Key:        first("keyfile", "ssl_key_file"),
		ServerName: values.Get("server_name_indication"),
	}
	if !wanted {
		if *t != (TLS{}) {
			return nil, errors.New("it names certificates, but does not ask for TLS (amqps://, or ssl=true)")
		}
		return nil, nil
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("a client certificate needs both certfile and keyfile")
	}
	return t, nil
}
