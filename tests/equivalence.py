"""Whether two kernel texts order their conflicting accesses alike; shares only the text's parser.

Everything here is written again on purpose: barriers are replayed by phase numbers, happens-before
is a set per action, and memory is laid out anew. Nothing of the prover is imported.
"""

from __future__ import annotations

from collections import defaultdict

from jfagen.readback.kernel_text import parse_kernel
from jfagen.readback.trace import ActionKind as K


def same_order(original, mutant, text):
    """Return why `text` is as good as the original's, or None if it is not.

    Every pair of accesses that conflicts in the original must be ordered the same way, what newly
    conflicts must be ordered, every read must see the writes that it saw, and no phase may be
    lapped.
    """
    return compare(original, text, copies=True) or compare(original, text, copies=False)


def compare(original, text, copies):
    """Compare with accesses named by the copy that they touch, or (deeper buffers) without it."""
    many = 6
    single = original.program.tiles.next.value == "one_per_cta"
    pairs = 0
    for trips in ((many,), (1,)) if single else ((many, many), (1, 1, 1), (2, 0, 3)):
        before = Conflicts(parse_kernel(original.kernel.text).trace(trips), copies)
        after = Conflicts(parse_kernel(text).trace(trips), copies)
        if not (before.hold and after.hold) or before.names != after.names:
            return None
        if not all(after.ordered(one, other) for one, other in before.pairs):
            return None
        if before.sources() != after.sources():
            return None
        pairs += len(before.pairs)
    return f"orders all {pairs} conflicting pairs alike, reads see the same writes"


class Conflicts:
    """The conflicting accesses of a trace, named independently of lines and copies."""

    def __init__(self, trace, copies):
        self.replay = Replay(trace, copies)
        self.hold = self.replay.run() and self.replay.phases_hold()
        self.nodes, self.pairs, self.reads, self.writes_before = {}, [], [], {}
        for accesses in self.replay.by_memory().values() if self.hold else ():
            for access in accesses:
                self.nodes[access[0]] = access[1:3]
            self.compare(accesses)
        self.names = set(self.nodes)

    def compare(self, accesses):
        for i, (name, _, _, writes, low, high) in enumerate(accesses):
            for other, _, _, writes2, low2, high2 in accesses[i + 1 :]:
                if not (writes or writes2) or low2 >= high or low >= high2:
                    continue
                if self.ordered(name, other):
                    first, second, first_writes, second_writes = name, other, writes, writes2
                elif self.ordered(other, name):
                    first, second, first_writes, second_writes = other, name, writes2, writes
                else:
                    self.hold = False
                    return
                self.pairs.append((first, second))
                if first_writes and not second_writes:
                    self.writes_before.setdefault(second, []).append(first)

    def ordered(self, one, other):
        (_, end), (begin, _) = self.nodes[one], self.nodes[other]
        return end == begin or end in self.replay.past(begin)

    def sources(self):
        """Return for every read the writes that no other write covers."""
        return {
            read: frozenset(
                w for w in writes if not any(v != w and self.ordered(w, v) for v in writes)
            )
            for read, writes in self.writes_before.items()
        }


class Replay:
    """Runs the roles one action at a time; every node keeps the list of nodes right before it."""

    def __init__(self, trace, copies):
        self.trace = trace
        self.copies = copies
        self.parents = []
        self.begin, self.end = {}, {}
        self.phase_parents = defaultdict(list)
        self.progress = {role: 0 for role in trace.actions}
        self.previous = {}
        self.last_mma = {}
        self.open_stores = defaultdict(list)
        self.open_matmuls = defaultdict(list)
        self.handed = defaultdict(list)
        self.arrived = defaultdict(int)
        self.missing_bytes = defaultdict(int)
        self.phase = defaultdict(int)
        self.waits = []
        self.asked, self.taken = [], defaultdict(list)
        self._past = {}

    def node(self, *parents):
        self.parents.append([p for p in parents if p is not None])
        return len(self.parents) - 1

    def run(self):
        moved = True
        while moved:
            moved = False
            for role, actions in self.trace.actions.items():
                while self.progress[role] < len(actions) and self.step(role, actions):
                    self.progress[role] += 1
                    moved = True
        return all(self.progress[r] == len(a) for r, a in self.trace.actions.items())

    def step(self, role, actions):
        index = self.progress[role]
        action = actions[index]
        extra = []
        if action.kind is K.WAIT:
            seen = self.phase[action.signal] - 1
            if seen % 2 != action.value:
                return False
            extra = self.phase_parents[action.signal, seen]
        elif action.kind is K.ASK:
            if self.asked and len(self.taken[len(self.asked) - 1]) < len(self.trace.actions):
                return False
            extra = self.taken[len(self.asked) - 1]
        elif action.kind is K.TAKE:
            turn = sum(1 for a in actions[:index] if a.kind is K.TAKE)
            if turn >= len(self.asked):
                return False
            extra = [self.asked[turn]]
        elif action.kind is K.DRAIN:
            stores = self.open_stores[role]
            extra = [stores.pop(0) for _ in range(len(stores) - action.value)]
        elif action.kind is K.JOIN:
            matmuls = self.open_matmuls[role]
            extra = [matmuls.pop(0) for _ in range(len(matmuls) - action.value)]
        elif action.kind is K.MEET:
            there = self.handed[action.signal]
            if 32 * sum(self.warps(other) for other, _ in (*there, (role, 0))) < action.value:
                return False
            extra = [node for _, node in there]
            there.clear()
        here = self.node(self.previous.get(role), *extra)
        self.previous[role] = here
        self.begin[role, index] = self.end[role, index] = here
        self.effects(role, index, action, here)
        return True

    def effects(self, role, index, action, here):
        if action.kind is K.WAIT:
            self.waits.append((here, action.signal, self.phase[action.signal] - 1))
        elif action.kind is K.ASK:
            self.asked.append(here)
        elif action.kind is K.TAKE:
            turn = sum(1 for a in self.trace.actions[role][:index] if a.kind is K.TAKE)
            self.taken[turn].append(here)
        elif action.kind in (K.MMA, K.LOAD, K.STORE):
            done = self.node(here, self.last_mma.get(role) if action.kind is K.MMA else None)
            self.end[role, index] = done
            if action.kind is K.MMA:
                self.last_mma[role] = done
                if action.joined:
                    self.open_matmuls[role].append(done)
                else:
                    self.begin[role, index] = done
                for signal in action.commits:
                    self.arrive(signal, done)
            elif action.kind is K.STORE:
                self.open_stores[role].append(done)
            else:
                self.missing_bytes[action.signal] -= self.size(action.writes[0].array)
                self.phase_parents[action.signal, self.phase[action.signal]].append(done)
                self.turn_over(action.signal)
        elif action.kind is K.COMMIT:
            self.arrive(action.signal, self.last_mma.get(role, here))
        elif action.kind is K.ARRIVE:
            self.arrive(action.signal, here)
        elif action.kind is K.HAND:
            self.handed[action.signal].append((role, here))
        elif action.kind is K.EXPECT:
            self.missing_bytes[action.signal] += action.value
            self.arrive(action.signal, here)

    def warps(self, role):
        return role.warps or self.trace.default_warps

    def arrive(self, signal, node):
        self.phase_parents[signal, self.phase[signal]].append(node)
        self.arrived[signal] += 1
        self.turn_over(signal)

    def turn_over(self, signal):
        if self.arrived[signal] >= self.trace.barriers[signal.name].count:
            if self.missing_bytes[signal] == 0:
                self.arrived[signal] -= self.trace.barriers[signal.name].count
                self.phase[signal] += 1

    def past(self, node):
        """Return all nodes before `node`."""
        if node not in self._past:
            stack = [node]
            while stack:
                top = stack[-1]
                open_parents = [p for p in self.parents[top] if p not in self._past]
                if open_parents:
                    stack += open_parents
                    continue
                stack.pop()
                merged = set(self.parents[top])
                for parent in self.parents[top]:
                    merged |= self._past[parent]
                self._past[top] = merged
        return self._past[node]

    def phases_hold(self):
        """No wait is lapped or passes early, and phases are filled one after the other."""
        for here, signal, seen in self.waits:
            following = self.phase_parents.get((signal, seen + 1))
            whole = following and self.phase[signal] > seen + 1
            if whole and not any(here in self.past(n) or here == n for n in following):
                return False
            earlier = self.phase_parents.get((signal, seen - 1), [])
            if not all(n in self.past(here) for n in earlier):
                return False
        for (signal, number), nodes in self.phase_parents.items():
            for first in self.phase_parents.get((signal, number - 1), []):
                if not all(first == n or first in self.past(n) for n in nodes):
                    return False
        return True

    def size(self, array):
        tiles = self.trace.tiles[array]
        total = tiles.element_bytes
        for extent in tiles.shape:
            total *= extent
        return total

    def by_memory(self):
        """Return (name, begin, end, writes, low, high) of every access, by place and copy."""
        places = {}
        for space, tree in self.trace.overlaps.items():
            self.lay_out(tree, space, 0, places)
        found, seen = defaultdict(list), defaultdict(int)
        for role, actions in self.trace.actions.items():
            for index, action in enumerate(actions):
                for regions, writes in ((action.reads, False), (action.writes, True)):
                    for region in regions:
                        tiles = self.trace.tiles[region.array]
                        root, base = places.get(region.array, (region.array, 0))
                        low, high = base, base + self.width(region.array)
                        if tiles.storage == "tmem":
                            low = base + region.start * tiles.element_bytes // 4
                            high = max(low + 1, base + region.stop * tiles.element_bytes // 4)
                        name = self.name(role, action, region, writes)
                        name = (*name, seen[name])
                        seen[name[:-1]] += 1
                        nodes = self.begin[role, index], self.end[role, index]
                        found[root, region.copy].append((name, *nodes, writes, low, high))
        return found

    def name(self, role, action, region, writes):
        """Name an access by what is done and to what, not by when or on which line."""
        touched = tuple(
            (r.array, r.start, r.stop, r.copy if self.copies else 0)
            for r in action.reads + action.writes
        )
        part = (region.array, region.start, region.stop)
        return (role.name, role.replica, action.kind, action.tensor, touched, part, writes)

    def width(self, array):
        tiles = self.trace.tiles[array]
        if tiles.storage == "tmem":
            return max(1, tiles.shape[-1] * tiles.element_bytes // 4)
        return self.size(array)

    def lay_out(self, tree, space, start, places):
        if isinstance(tree, str):
            places[tree] = (space, start)
            return start + self.width(tree)
        kind, parts = tree
        if kind == "shared":
            return max(self.lay_out(part, space, start, places) for part in parts)
        for part in parts:
            wide = self.lay_out(part, space, 0, {})
            start = self.lay_out(part, space, -(-start // wide) * wide, places)
        return start
