#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/types.h"

namespace talon {

/// Every substring of a growing text, with how often it occurs and where it ended first (Blumer et
/// al., 1985; SAM decoding, arXiv:2411.10666). Strings that end at the same places are one state.
/// Appending a token takes amortised constant time plus a bounded walk that counts. Memory: at most
/// two states per token, about 250 bytes per token in all.
class SuffixAutomaton {
 public:
  using State = std::int32_t;
  static constexpr State kRoot = 0;  // the empty string

  struct Transition {
    TokenId token;
    State to;
  };

  SuffixAutomaton();
  void append(TokenId token);

  int size() const { return size_; }  // tokens
  int states() const { return static_cast<int>(states_.size()); }

  /// The state of a state's strings followed by `token`; -1 if that never occurred.
  State next(State state, TokenId token) const;
  std::span<const Transition> transitions(State state) const { return at(state).transitions; }
  /// The state of the longest suffix that occurs at more places; -1 for the root.
  State link(State state) const { return at(state).link; }
  /// Tokens of a state's longest string.
  int length(State state) const { return at(state).length; }
  /// Tokens up to and including the first place where a state's strings ended; 0 for the root.
  int first_end(State state) const { return at(state).first_end; }
  /// Places where a state's strings end. Of a string that ends in more than kCountedStates nested
  /// states (aaaa...), only those in the longest of them count.
  int occurrences(State state) const { return at(state).occurrences; }
  static constexpr int kCountedStates = 256;

  /// A string that occurs in the text, as its state and its length.
  struct Match {
    State state = kRoot;
    int length = 0;
  };
  /// The longest suffix of (match followed by token) that occurs.
  Match advance(Match match, TokenId token) const;
  /// The same string after the text has grown, which may have split its state.
  Match refreshed(Match match) const;
  /// The longest shorter suffix of a match that occurs at more places.
  Match shorter(Match match) const { return {link(match.state), length(link(match.state))}; }

 private:
  struct Node {
    int length = 0;
    State link = -1;
    int first_end = 0;
    int occurrences = 0;
    std::vector<Transition> transitions;  // ascending by token
  };
  const Node& at(State state) const { return states_[static_cast<std::size_t>(state)]; }
  Node& at(State state) { return states_[static_cast<std::size_t>(state)]; }
  State split(State state, State before, TokenId token);
  void set(State state, TokenId token, State to);

  std::vector<Node> states_;
  State whole_ = kRoot;  // of the whole text
  int size_ = 0;
};

}  // namespace talon
