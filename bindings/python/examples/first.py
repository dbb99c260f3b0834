# SPDX-License-Identifier: MIT OR Apache-2.0
"""Several fibers compute an answer. The first one cancels the others; the program waits for at most a second."""

import fiberrt


def answer(seconds: float, answers: list[float], group: fiberrt.TaskGroup) -> None:
    fiberrt.sleep(seconds)
    answers.append(seconds)
    group.cancel()


def main() -> None:
    answers: list[float] = []
    with fiberrt.move_on_after(1) as limit:
        with fiberrt.TaskGroup() as group:
            for seconds in (0.3, 0.1, 0.2):
                group.spawn(answer, seconds, answers, group)
    print("nobody" if limit.expired else answers)


main()
