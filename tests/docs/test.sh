#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# test.sh BUILD SOURCE - that blocks.py finds what is wrong: of a small tree of documentation without a mistake it
# reports none, and of one with a mistake of each kind all of them, and nothing else.
set -eu
build=$1
source=$2
work=$build/tests/docs/planted
tree=$work/tree

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

rm -rf "$work"
mkdir -p "$tree/docs" "$tree/include" "$tree/tests/docs/frames"

# What is right.
echo 'int fiber_sleep(long);' >"$tree/include/fiberrt.h"
printf '#include <stdio.h>\nint main(void) {\nBLOCK\nreturn 0; }\n' >"$tree/tests/docs/frames/main.c"
cp "$tree/tests/docs/frames/main.c" "$tree/tests/docs/frames/main.cc"
printf '# names docs/right.md\n' >"$tree/tests/checks.py"
cat >"$tree/docs/right.md" <<'END'
# A page
<!-- A comment. -->
## Its second `part`

A [link](#its-second-part), a [file](../include/fiberrt.h), the function `fiber_sleep`, a family: `fiber_*`.

<!-- frame: main -->
```c
puts("hello");
```

<!-- output -->
```text
hello
```

```cpp
int main() { return [] { return 0; }(); }
```

<!-- file: one.txt -->
```toml
one = 1
```

<!-- kind: sh -->

    grep -q one one.txt
    cd "$HOME"/fiberrt/include

```console
$ echo a; echo b
a
b
$ true
```

<!-- as in: include/fiberrt.h -->
```none
int fiber_sleep(long);
```

<!-- checked by: tests/checks.py -->
```python
nonsense
```

<!-- not run: there is no such machine -->

    left out
END

check() {
    python3 "$source/tests/docs/blocks.py" "$tree" "$build" "$work/work" "$@" >"$work/log" 2>&1
}
check --at-least 4 || fail "of a tree without a mistake it says: $(cat "$work/log")"
if check --at-least 5; then fail 'it does not tell that there are too few blocks'; fi

# What is wrong: a page for each mistake, and what is to be said of it.
count=0
: >"$work/expected"
plant() {
    count=$((count + 1))
    cat >"$tree/docs/wrong$count.md"
    echo "docs/wrong$count.md:[0-9]*: $1" >>"$work/expected"
}
plant 'does not compile' <<'END'
```c
int main(void) { return fiber_slep(1); }
```
END
plant 'does not compile' <<'END'
<!-- frame: main -->
```c
int unused = 1; /* a warning */
```
END
plant 'ends with 3' <<'END'
```c
int main(void) { return 3; }
```
END
plant 'ends with -' <<'END'
<!-- frame: main -->
```cpp
__builtin_trap();
```
END
plant 'ends with 1' <<'END'
```sh
false
true
```
END
plant '.echo one. puts out' <<'END'
```console
$ echo one
two
```
END
plant 'the block before puts out' <<'END'
<!-- frame: main -->
```c
puts("one");
```

<!-- output -->
```text
two
```
END
plant 'a block without a kind' <<'END'
    int main(void)
END
plant 'a block without a kind' <<'END'
```
int main(void)
```
END
plant "a block of kind 'rust'" <<'END'
```rust
fn main() {}
```
END
plant 'the reason why it is not run is missing' <<'END'
<!-- not run: -->
```c
int main(void)
```
END
plant 'there is no frame' <<'END'
<!-- frame: mian -->
```c
puts("");
```
END
plant 'unknown mark' <<'END'
<!-- farme: main -->
```text
puts("");
```
END
plant 'no block follows the mark' <<'END'
<!-- frame: main -->
Prose.
END
plant 'no later sh block uses' <<'END'
<!-- file: unused.c -->
```c
int main(void) { return 0; }
```
END
plant 'does not stand so in' <<'END'
<!-- as in: include/fiberrt.h -->
```none
int fiber_sleep(int);
```
END
plant '.*does not check this page' <<'END'
<!-- checked by: tests/checks.py -->
```python
pass
```
END
plant 'the link leads nowhere' <<'END'
[A page](nowhere.md)
END
plant 'there is no such heading' <<'END'
[A page](right.md#its-third-part)
END
echo '<svg xmlns="http://www.w3.org/2000/svg"><title>Right</svg>' >"$tree/docs/picture.svg"
plant 'docs/picture.svg is no picture' <<'END'
![A picture](picture.svg)
END
echo '<svg xmlns="http://www.w3.org/2000/svg"/>' >"$tree/docs/untitled.svg"
plant 'docs/untitled.svg has no title' <<'END'
![A picture](untitled.svg)
END
plant 'the picture has no words' <<'END'
![](../include/fiberrt.h)
END
plant 'there is no fiber_slep' <<'END'
Call `fiber_slep`.
END
plant 'this block has no end' <<'END'
```text
END

if check; then fail "it finds none of the mistakes: $(cat "$work/log")"; fi
while read -r message; do
    grep -q "^FAILED: $message" "$work/log" || fail "it does not say $message: $(cat "$work/log")"
done <"$work/expected"
found=$(grep -c '^FAILED' "$work/log")
[ "$found" -eq "$count" ] || fail "it tells of $found mistakes instead of $count: $(cat "$work/log")"

# What hangs, together with what it has started.
rm "$tree"/docs/*
printf '```sh\nsleep 600 & wait\n```\n' >"$tree/docs/hangs.md"
if check --seconds 1; then fail 'it does not tell of what hangs'; fi
grep -q '^FAILED: docs/hangs.md:2: has not ended' "$work/log" || fail "of what hangs it says: $(cat "$work/log")"
echo "ok: all of $found mistakes found, and what hangs"
