package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/keystone"
)

// keystoneLogin reads the credentials that `openstack` takes, and gives the function that gets
// a token for them.
func keystoneLogin(getenv func(string) string) (func(context.Context) (string, error), error) {
	access, err := keystone.Read(getenv)
	if err == nil && access.Token != "" {
		err = errors.New("OS_AUTH_TYPE says that there is no Keystone")
	}
	if err != nil {
		return nil, &device.Fault{Class: device.Permanent, Code: device.CodeInvalidSetting,
			Message: "the credentials of OpenStack are not valid: " + oneLine(err),
			Remedy:  "correct the OS_ variables or clouds.yaml, or set " + config.VarAPIToken}
	}
	web, err := access.HTTP(1)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (string, error) {
		provider, err := access.Login(ctx, web)
		if err != nil {
			return "", loginFault(access.Options.IdentityEndpoint, err)
		}
		return provider.Token(), nil
	}, nil
}

// loginFault says why Keystone gave no token. What Keystone wrote is left out: it may repeat
// what it was sent.
func loginFault(endpoint string, err error) error {
	var answer gophercloud.ErrUnexpectedResponseCode
	var at *url.Error
	f := &device.Fault{Class: device.Transient, Code: device.CodeUnreachable, Message: "Keystone at " + endpoint + " ",
		Remedy: "see that OS_AUTH_URL is right and that Keystone runs, or set " + config.VarAPIToken}
	switch {
	case errors.As(err, &answer) && (answer.Actual == http.StatusUnauthorized || answer.Actual == http.StatusForbidden):
		f.Class, f.Code, f.Remedy = device.Permanent, device.CodeNotAuthenticated, "correct the OS_ variables or clouds.yaml"
		f.Message += "refuses these credentials"
	case errors.As(err, &answer):
		f.Message += fmt.Sprintf("answered %d %s", answer.Actual, http.StatusText(answer.Actual))
	case errors.As(err, &at):
		f.Message += "does not answer: " + oneLine(at.Err)
	default:
		f.Message += "gave no token: " + oneLine(err)
	}
	return f
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
