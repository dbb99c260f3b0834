// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build !linux || !(amd64 || arm64 || riscv64)

package self

// On other systems the package cannot be built: the name of this variable is the error message.
var _ = fiberrt_runs_only_on_Linux_on_amd64_arm64_and_riscv64
