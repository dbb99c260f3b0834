// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo && race

package fiberrt

const underRace = true
