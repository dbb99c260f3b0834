module example.com/fiberrt/bindings/go

go 1.24
