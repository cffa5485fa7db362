// Package hardwaremock holds mocks of the hardware ports, for failures that no fake
// device can give. `make mocks` writes them again.
package hardwaremock

//go:generate go tool mockgen -destination=mocks.go -package=hardwaremock -typed -write_package_comment=false burnish/internal/hardware Handle,Driver
