// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build cgo

package fiberrt

import (
	"testing"
	"time"
)

// Compares a turn of a fiber with switches of goroutines, as ratios of the best of many short, interleaved rounds, so
// that other programs on the machine count little.
func BenchmarkSwitchRatios(b *testing.B) {
	const rounds, turns = 60, 20000
	kinds := []func(b *testing.B){
		func(b *testing.B) { benchReschedule(b, 100) },
		func(b *testing.B) { benchGosched(b, 100) },
		func(b *testing.B) { benchGosched(b, 2) },
		BenchmarkChannelPingPong,
		BenchmarkSpawn100,
		BenchmarkCoroutine,
		func(b *testing.B) { benchReschedule(b, 2) },
	}
	best := make([]time.Duration, len(kinds))
	for round := range rounds {
		for i, kind := range kinds {
			part := &testing.B{N: turns}
			part.ResetTimer()
			part.StartTimer()
			kind(part)
			part.StopTimer()
			if took := part.Elapsed(); round == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	ns := func(i int) float64 { return float64(best[i].Nanoseconds()) / turns }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ns(0), "ns/reschedule")
	b.ReportMetric(ns(6), "ns/reschedule-of-2")
	b.ReportMetric(ns(0)/ns(1), "reschedule/Gosched")
	b.ReportMetric(ns(0)/ns(3), "reschedule/ping-pong")
	b.ReportMetric(ns(6)/ns(2), "reschedule-of-2/Gosched-of-2")
	b.ReportMetric(ns(6)/ns(3), "reschedule-of-2/ping-pong")
	b.ReportMetric(ns(4), "ns/spawn")
	b.ReportMetric(ns(5), "ns/coroutine")
}
