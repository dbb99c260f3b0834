# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ten thousand fibers sleep at the same time; their results are added up."""

import fiberrt


def nap(number: int) -> int:
    fiberrt.sleep(0.1)
    return number


def main() -> None:
    fibers: list[fiberrt.Fiber[int]] = [fiberrt.spawn(nap, number) for number in range(10_000)]
    total: int = sum(fiber.result() for fiber in fibers)
    print(total)


main()
