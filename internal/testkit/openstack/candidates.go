package openstack

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
)

// Offer is one answer to the question where an instance's devices could come from.
type Offer struct {
	Allocations map[string]any `json:"allocations"`
	Mappings    map[string]any `json:"mappings"`
}

// Providers are those of an offer's devices, in order.
func (o Offer) Providers() []string { return slices.Sorted(maps.Keys(o.Allocations)) }

// Offers asks for n one-time-use devices of a class, each from another provider below one
// host, as Nova does for a flavor whose alias has that count. There are none where Placement
// has not enough of them free.
func (c Client) Offers(ctx context.Context, class string, n int) ([]Offer, error) {
	query := url.Values{"group_policy": {"isolate"}}
	for i := 1; i <= n; i++ {
		query.Set(fmt.Sprintf("resources_PCI%d", i), class+":1")
		query.Set(fmt.Sprintf("required_PCI%d", i), "HW_PCI_ONE_TIME_USE")
	}
	var answer struct {
		Requests []Offer `json:"allocation_requests"`
	}
	status, text, err := c.Do(ctx, http.MethodGet, "/allocation_candidates?"+query.Encode(), nil, &answer)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%w: %d %s", errRefused, status, text)
	}
	return answer.Requests, err
}

// Claim allocates an offer to a consumer.
func (c Client) Claim(ctx context.Context, o Offer, consumer string) error {
	return c.succeed(ctx, http.MethodPut, "/allocations/"+consumer, map[string]any{
		"allocations": o.Allocations, "mappings": o.Mappings,
		"project_id": "burnish-test", "user_id": "burnish-test", "consumer_generation": nil, "consumer_type": "INSTANCE",
	})
}
