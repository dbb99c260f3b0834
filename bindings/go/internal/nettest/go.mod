// A separate module, so that users of the package do not need golang.org/x/net.
module example.com/fiberrt/bindings/go/internal/nettest

go 1.24.0

require (
	example.com/fiberrt/bindings/go v0.0.0
	golang.org/x/net v0.43.0
)

replace example.com/fiberrt/bindings/go => ../..
