// SPDX-License-Identifier: MIT OR Apache-2.0
// An intrusive doubly linked list: the links live in the members, so linking never allocates and never fails.
#pragma once

namespace fiberrt {

struct Link {
    Link* prev = nullptr; // both null while it is in no list
    Link* next = nullptr;

    bool linked() const { return next != nullptr; }

    void unlink() {
        prev->next = next;
        next->prev = prev;
        prev = next = nullptr;
    }
};

// T derives from Link. FIFO: push at the back, take from the front.
template <class T>
struct List {
    Link ends{&ends, &ends};

    List() = default;
    List(const List&) = delete;
    List& operator=(const List&) = delete;

    bool empty() const { return ends.next == &ends; }
    T* front() { return empty() ? nullptr : static_cast<T*>(ends.next); }
    T* after(T* item) { return item->next == &ends ? nullptr : static_cast<T*>(item->next); }

    void push_back(T* item) {
        item->prev = ends.prev;
        item->next = &ends;
        ends.prev->next = item;
        ends.prev = item;
    }

    T* pop_front() {
        T* item = front();
        if (item) item->unlink(); // coverage: uncounted
        return item;
    }
};

// A List in one pointer, for lists that are mostly empty: a ring of links, and a pointer to the first.
template <class T>
class ShortList {
public:
    bool empty() const { return !first_; }
    T* front() { return static_cast<T*>(first_); }
    T* after(T* item) {
        Link* next = static_cast<Link*>(item)->next;
        return next == first_ ? nullptr : static_cast<T*>(next);
    }

    void push_front(T* item) {
        push_back(item);
        first_ = item;
    }
    void push_back(T* item) {
        Link* link = item;
        if (!first_) {
            link->prev = link->next = link;
            first_ = link;
            return;
        }
        link->prev = first_->prev;
        link->next = first_;
        first_->prev->next = link;
        first_->prev = link;
    }

    void remove(T* item) {
        Link* link = item;
        if (first_ == link) first_ = link->next == link ? nullptr : link->next;
        link->unlink();
    }

    T* pop_front() {
        T* item = static_cast<T*>(first_);
        if (item) remove(item);
        return item;
    }

private:
    Link* first_ = nullptr;
};

} // namespace fiberrt
