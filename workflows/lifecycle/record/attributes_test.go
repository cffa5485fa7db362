package record_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/proto"

	"burnish/workflows/lifecycle/record"
)

// Devices share the descriptions of the types of their search attributes and memos, which keep
// their content.
func TestDevicesShareTheTypesOfTheirAttributes(t *testing.T) {
	attributes := func(value string) *commonpb.SearchAttributes {
		of := func(kind string) *commonpb.Payload {
			return &commonpb.Payload{Data: []byte(value), Metadata: map[string][]byte{"encoding": []byte("json/plain"), "type": []byte(kind)}}
		}
		return &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{
			"Host": of("Keyword"), "State": of("Keyword"), "Dirty": of("Bool"), "Untyped": {Data: []byte(value)}, "None": nil,
		}}
	}
	one, other := attributes(`"h1"`), attributes(`"h2"`)
	record.CompactPayloads(one.GetIndexedFields())
	record.CompactPayloads(other.GetIndexedFields())
	require.True(t, proto.Equal(attributes(`"h1"`), one))
	require.True(t, proto.Equal(attributes(`"h2"`), other))

	kind := func(of *commonpb.SearchAttributes, name string) uintptr {
		return reflect.ValueOf(of.GetIndexedFields()[name].GetMetadata()).Pointer()
	}
	require.Equal(t, kind(one, "Host"), kind(other, "Host"))
	require.Equal(t, kind(one, "Host"), kind(other, "State"))
	require.NotEqual(t, kind(one, "Host"), kind(one, "Dirty"))

	record.CompactPayloads(nil)
}
