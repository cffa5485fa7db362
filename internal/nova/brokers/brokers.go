// Package brokers reads the address of Nova's message broker: an AMQP URL, or the
// transport_url of an OpenStack service's configuration, as it stands there.
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

// Broker is one node that may be connected to.
type Broker struct {
	Host        string
	Port        int
	User        string
	Password    string
	VirtualHost string
	// TLS is nil where the connection is in the clear.
	TLS *TLS
}

// TLS is what a URL says about certificates: paths of PEM files, and the name that the
// server's must have (default: Host). Without CA the machine's own authorities count.
type TLS struct {
	CA, Cert, Key, ServerName string
}

// String names a broker in a log: no credentials.
func (b Broker) String() string {
	return fmt.Sprintf("%s, virtual host %s", b.Address(), b.VirtualHost)
}

// Address is host:port.
func (b Broker) Address() string { return net.JoinHostPort(b.Host, strconv.Itoa(b.Port)) }

// Parse reads amqp://, amqps:// and oslo.messaging's rabbit:// URLs. Several nodes may
// be given in one URL (rabbit://u:p@h1:5672,u:p@h2:5672/vhost) or as several URLs with
// commas between them. A user name, a password or a virtual host with one of ":/?@,%"
// has it percent-encoded. The error never holds a password.
func Parse(text string) ([]Broker, error) {
	if text == "" {
		return nil, errors.New("no URL")
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return nil, errors.New("there is a space or a control character in it")
	}
	// A comma stands between nodes of one URL, or between URLs.
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
			return nil, errors.New("the virtual host is not percent-encoded as it should be")
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
	// oslo.messaging would try the others as guest, which helps nobody.
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
		// Their own errors quote what they read.
		if err1 != nil || err2 != nil || strings.ContainsAny(password, ":@") || strings.Contains(user, "@") {
			return node, true, errors.New("the user or the password is not percent-encoded as it should be")
		}
		place = authority[at+1:]
	}
	var host, port string
	if strings.HasPrefix(place, "[") {
		end := strings.Index(place, "]")
		if end < 0 || net.ParseIP(place[1:end]) == nil {
			return node, credentials, errors.New("what stands in [] is no IPv6 address")
		}
		host, port = place[1:end], place[end+1:]
		if port != "" && !strings.HasPrefix(port, ":") {
			return node, credentials, errors.New("behind [] there is no :port")
		}
		port = strings.TrimPrefix(port, ":")
	} else {
		host, port, _ = strings.Cut(place, ":")
	}
	if host == "" {
		return node, credentials, errors.New("there is no host in it")
	}
	// Whoever forgot to encode a password has a piece of it here: it is not repeated.
	if net.ParseIP(host) == nil && strings.ContainsFunc(host, func(r rune) bool {
		return r != '.' && r != '-' && r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) {
		return node, credentials, errors.New("the host is no host name")
	}
	node.Host = host
	if port != "" {
		if node.Port, err = strconv.Atoi(port); err != nil || node.Port < 1 || node.Port > 65535 {
			return node, credentials, errors.New("the port is no number within 1 to 65535")
		}
	}
	return node, credentials, nil
}

// certificates reads scheme and query: RabbitMQ's own names and oslo.messaging's. What
// else an OpenStack service has in its query is not about the connection.
func certificates(scheme, query string) (*TLS, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("what stands behind ? is not key=value&key=value")
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
			return nil, errors.New("ssl is neither true nor false")
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
		return nil, errors.New("a certificate of our own needs both its file and its key's")
	}
	return t, nil
}
