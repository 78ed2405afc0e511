#include "draft/lookup/suffix_automaton.h"

#include <algorithm>

namespace talon {
namespace {

bool has_smaller_token(const SuffixAutomaton::Transition& transition, TokenId token) {
  return transition.token < token;
}

}  // namespace

SuffixAutomaton::SuffixAutomaton() : states_(1) {}

SuffixAutomaton::State SuffixAutomaton::next(State state, TokenId token) const {
  const auto& transitions = at(state).transitions;
  const auto found =
      std::lower_bound(transitions.begin(), transitions.end(), token, has_smaller_token);
  return found != transitions.end() && found->token == token ? found->to : -1;
}

void SuffixAutomaton::set(State state, TokenId token, State to) {
  auto& transitions = at(state).transitions;
  const auto place =
      std::lower_bound(transitions.begin(), transitions.end(), token, has_smaller_token);
  if (place != transitions.end() && place->token == token) {
    place->to = to;
  } else {
    transitions.insert(place, {token, to});
  }
}

void SuffixAutomaton::append(TokenId token) {
  const auto added = static_cast<State>(states_.size());
  states_.push_back({++size_, -1, size_, 0, {}});
  State before = std::exchange(whole_, added);
  for (; before >= 0 && next(before, token) < 0; before = link(before)) set(before, token, added);
  if (before < 0) {
    at(added).link = kRoot;
  } else {
    const State known = next(before, token);
    const bool is_exact = length(known) == length(before) + 1;
    const State suffix = is_exact ? known : split(known, before, token);
    at(added).link = suffix;
  }
  State ending = added;
  for (int i = 0; i < kCountedStates && ending > kRoot; ++i, ending = link(ending)) {
    ++at(ending).occurrences;
  }
}

/// Separates the strings of `state` that end in (before, token), which now also end at the end of
/// the text.
SuffixAutomaton::State SuffixAutomaton::split(State state, State before, TokenId token) {
  const auto shorter_one = static_cast<State>(states_.size());
  Node copy = at(state);
  copy.length = length(before) + 1;
  states_.push_back(std::move(copy));
  at(state).link = shorter_one;
  for (; before >= 0 && next(before, token) == state; before = link(before)) {
    set(before, token, shorter_one);
  }
  return shorter_one;
}

SuffixAutomaton::Match SuffixAutomaton::advance(Match match, TokenId token) const {
  while (true) {
    if (const State to = next(match.state, token); to >= 0) return {to, match.length + 1};
    if (match.state == kRoot) return {};
    match = shorter(match);
  }
}

SuffixAutomaton::Match SuffixAutomaton::refreshed(Match match) const {
  while (match.state != kRoot && match.length <= length(link(match.state))) {
    match.state = link(match.state);
  }
  return match;
}

}  // namespace talon
