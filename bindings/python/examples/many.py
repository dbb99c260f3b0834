# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ten thousand fibers that sleep at the same time, and what they return."""

import fiberrt


def nap(number: int) -> int:
    fiberrt.sleep(0.1)
    return number


def main() -> None:
    fibers: list[fiberrt.Fiber[int]] = [fiberrt.spawn(nap, number) for number in range(10_000)]
    total: int = sum(fiber.result() for fiber in fibers)
    print(total)


main()
