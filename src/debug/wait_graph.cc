// SPDX-License-Identifier: MIT OR Apache-2.0
// A search in depth for circles of waits. The looks that made the graph were of different moments, so a circle in it
// may never have existed; confirm() looks at its fibers once more, at one moment.
#include "debug/wait_graph.h"

#include "base/peek.h"
#include "debug/describe.h"

namespace fiberrt {

struct WaitGraph::Node {
    uint64_t hash;
    Node* child[4];
    uint64_t id;
    Node* next;          // in list_
    Node* next_of_scope; // of the children of one scope
    Node* next_of_cord;  // of the fibers of one cord
    uint64_t target;     // the fiber that it waits for; 0: those of all_of
    uint64_t all_of;     // the scope or cord all of whose fibers it waits for

    enum class Visit : uint8_t { none, on_path, done } visit;
    bool closes; // a circle that ends with it has been tried
    bool begun;  // next_target has been called
    Node* outer; // the fiber before it on the path
    Node* at;    // the member of all_of that next_target has returned last
};

// The fibers of a cord, or the children of a scope.
struct WaitGraph::Members {
    uint64_t hash;
    Members* child[4];
    uint64_t key;
    Node* first;
};

namespace {

bool is_cord(uint64_t id) { return id >> 56 == uint64_t(Tag::cord); }

// The main flow of a cord; 0: it has none, or has ended.
uint64_t main_flow_of(uint64_t cord_id) {
    Cord* cord;
    if (cords.resolve(cord_id, &cord) != 0) return 0;
    const Fiber* fiber = peek(cord->main_flow.fiber); // slots are never unmapped
    return fiber ? id_in(fiber) : 0;
}

// What a fiber waits for: one fiber, or all of a scope or a cord.
struct Edges {
    uint64_t target;
    uint64_t all_of;
};
Edges edges_of(const Snapshot& seen) {
    if (!seen.still) return {};
    if (seen.state == State::transferring) return {seen.transferred, 0};
    if (!seen.has_wait) return {waits_for(seen), 0};
    switch (seen.wait.what) {
    case WaitFor::cord: return {main_flow_of(seen.wait.target), 0};
    case WaitFor::children: return {0, seen.wait.for_all ? seen.wait.target : 0};
    case WaitFor::quiet: return {0, CordTable::id_of(seen.cord)};
    default: return {waits_for(seen), 0};
    }
}

bool keeps_its_cord(const Snapshot& seen) { return seen.kind == Kind::keeps_cord; }

bool waits_for(const Snapshot& one, const Snapshot& other) {
    Edges edges = edges_of(one);
    if (edges.target) return edges.target == other.id;
    if (!edges.all_of || other.state == State::dead || one.id == other.id) return false;
    if (is_cord(edges.all_of)) return keeps_its_cord(other) && CordTable::id_of(other.cord) == edges.all_of;
    return other.scope == edges.all_of;
}

} // namespace

WaitGraph::Node* WaitGraph::node_of(uint64_t id) {
    return *trie_place(&nodes_, hash_step(0, id), [id](const Node& node) { return node.id == id; });
}

WaitGraph::Members* WaitGraph::members_of(uint64_t key, bool make) {
    uint64_t hash = hash_step(0, key);
    Members** place = trie_place(&members_, hash, [key](const Members& members) { return members.key == key; });
    if (!*place && make && (*place = arena_.make<Members>())) {
        (*place)->hash = hash;
        (*place)->key = key;
    }
    return *place;
}

void WaitGraph::add(const Snapshot& seen) {
    Edges edges = edges_of(seen);
    if (!edges.target && !edges.all_of) return;
    uint64_t hash = hash_step(0, seen.id);
    Node** place = trie_place(&nodes_, hash, [&](const Node& node) { return node.id == seen.id; });
    if (*place) return;
    auto* node = arena_.make<Node>();
    Members* scope = seen.scope ? members_of(seen.scope, true) : nullptr;
    Members* cord = keeps_its_cord(seen) ? members_of(CordTable::id_of(seen.cord), true) : nullptr;
    if (!node || (seen.scope && !scope) || (keeps_its_cord(seen) && !cord)) {
        lacks_memory_ = true;
        return;
    }
    node->hash = hash;
    node->id = seen.id;
    node->target = edges.target;
    node->all_of = edges.all_of;
    node->next = list_;
    *place = list_ = node;
    if (scope) {
        node->next_of_scope = scope->first;
        scope->first = node;
    }
    if (cord) {
        node->next_of_cord = cord->first;
        cord->first = node;
    }
}

// The next fiber that this one waits for, and that waits itself; null: there is no further one.
WaitGraph::Node* WaitGraph::next_target(Node& node) {
    bool first = !node.begun;
    node.begun = true;
    if (node.target) return first ? node_of(node.target) : nullptr;
    bool of_cord = is_cord(node.all_of);
    if (first) {
        Members* members = members_of(node.all_of, false);
        node.at = members ? members->first : nullptr;
    } else {
        node.at = of_cord ? node.at->next_of_cord : node.at->next_of_scope;
    }
    if (node.at == &node) node.at = node.at->next_of_cord;
    return node.at;
}

// Whether the fibers on the path from `first` to `last` wait for each other, all at one moment.
bool WaitGraph::confirm(Node* last, Node* first, WaitCircle& out) {
    int count = 1;
    for (Node* node = last; node != first; node = node->outer) count++;
    auto* seen = arena_.make<Snapshot>(size_t(count));
    auto* looks = arena_.make<Look>(size_t(count));
    if (!seen || !looks) {
        lacks_memory_ = true;
        return false;
    }
    Node* node = last;
    for (int i = count; i-- > 0; node = node->outer) {
        looks[i] = {nullptr, {node->id}, &seen[i], nullptr};
        if (fibers.resolve(node->id, &looks[i].fiber) != 0) return false;
    }
    if (!look_at_one_moment(looks, count, nullptr)) return false;
    out = {seen, count, true, never};
    for (int i = 0; i < count; i++) {
        const Snapshot& one = seen[i];
        if (!waits_for(one, seen[(i + 1) % count]) || one.is_asked_to_stop) return false;
        int64_t deadline = deadline_of(one);
        if (deadline < out.deadline) out.deadline = deadline;
        if (deadline != never || one.more_scopes || one.state == State::transferring) out.certain = false;
    }
    return true;
}

// Goes on with the search until it finds a circle. False: it is over.
bool WaitGraph::next(WaitCircle& out) {
    for (;;) {
        if (!path_) {
            while (list_ && list_->visit != Node::Visit::none) list_ = list_->next;
            if (!list_) return false;
            path_ = list_;
            path_->visit = Node::Visit::on_path;
        }
        Node* target = next_target(*path_);
        if (!target) {
            path_->visit = Node::Visit::done;
            path_ = path_->outer;
        } else if (target->visit == Node::Visit::none) {
            target->visit = Node::Visit::on_path;
            target->outer = path_;
            path_ = target;
        } else if (target->visit == Node::Visit::on_path && !target->closes) {
            target->closes = confirm(path_, target, out);
            if (target->closes) return true;
        }
    }
}

} // namespace fiberrt
