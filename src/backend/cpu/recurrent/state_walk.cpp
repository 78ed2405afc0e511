#include "backend/cpu/recurrent/state_walk.h"

namespace talon::cpu {
namespace {

bool is_line(const StateRun& run, std::span<const StateRow> rows) {
  for (int i = 0; i < run.count; ++i) {
    if (rows[static_cast<std::size_t>(i)].parent != i - 1) return false;
  }
  return true;
}

/// One buffer for all; a line's last row needs none unless its state is kept.
StateWalk line_of(const StateRun& run, std::span<const StateRow> rows) {
  StateWalk walk;
  walk.buffers = 1;
  for (int i = 0; i < run.count; ++i) {
    const bool kept =
        i + 1 < run.count || run.to >= 0 || rows[static_cast<std::size_t>(i)].save >= 0;
    walk.visits.push_back({i, i == 0 ? StateWalk::kStart : 0, kept ? 0 : StateWalk::kNowhere});
  }
  return walk;
}

}  // namespace

/// Depth first; a row's last child steps on in its buffer, the others in one of their own.
StateWalk StateWalk::of(const StateRun& run, std::span<const StateRow> rows) {
  if (is_line(run, rows)) return line_of(run, rows);
  const auto count = static_cast<std::size_t>(run.count);
  std::vector<std::vector<int>> children(count);
  std::vector<Visit> stack;  // `to` of what waits: whether it is its parent's last child
  for (int i = run.count - 1; i >= 0; --i) {
    const int parent = rows[static_cast<std::size_t>(i)].parent;
    if (parent < 0) {
      stack.push_back({i, kStart, 0});
    } else {
      children[static_cast<std::size_t>(parent)].push_back(i);  // the last child first
    }
  }
  StateWalk walk;
  std::vector<int> unused;
  while (!stack.empty()) {
    const Visit next = stack.back();
    stack.pop_back();
    const bool takes_over = next.to == 1;
    const auto& below = children[static_cast<std::size_t>(next.entry)];
    int to = kNowhere;
    if (!below.empty() && takes_over) {
      to = next.from;
    } else if (!below.empty()) {
      if (unused.empty()) unused.push_back(walk.buffers++);
      to = unused.back();
      unused.pop_back();
    } else if (takes_over) {
      unused.push_back(next.from);
    }
    walk.visits.push_back({next.entry, next.from, to});
    for (std::size_t i = 0; i < below.size(); ++i) stack.push_back({below[i], to, i == 0 ? 1 : 0});
  }
  return walk;
}

}  // namespace talon::cpu
