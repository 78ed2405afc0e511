#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/types.h"
#include "tree/law.h"

// For tests: runs a random program once for every way its decisions can fall, with exact
// probabilities.

namespace talon {

/// An exact fraction. Throws std::overflow_error rather than being wrong.
class Rational {
 public:
  Rational() : Rational(0) {}
  explicit Rational(std::int64_t whole) : numerator_(whole), denominator_(1) {}

  /// "3/19" or "2".
  static Rational parse(const std::string& text) {
    const std::size_t slash = text.find('/');
    const Rational numerator(std::stoll(text.substr(0, slash)));
    if (slash == std::string::npos) return numerator;
    return numerator / Rational(std::stoll(text.substr(slash + 1)));
  }
  double approximate() const {
    return static_cast<double>(numerator_) / static_cast<double>(denominator_);
  }

  friend Rational operator+(const Rational& a, const Rational& b) {
    const Wide common = greatest_divisor(a.denominator_, b.denominator_);
    const Wide b_part = b.denominator_ / common;
    return Rational(
        sum(product(a.numerator_, b_part), product(b.numerator_, a.denominator_ / common)),
        product(a.denominator_, b_part));
  }
  friend Rational operator-(const Rational& a, const Rational& b) {
    return a + Rational(-b.numerator_, b.denominator_);
  }
  friend Rational operator*(const Rational& a, const Rational& b) {
    const Rational left(a.numerator_, b.denominator_), right(b.numerator_, a.denominator_);
    return Rational(product(left.numerator_, right.numerator_),
                    product(left.denominator_, right.denominator_));
  }
  friend Rational operator/(const Rational& a, const Rational& b) {
    return b.numerator_ < 0 ? a * Rational(-b.denominator_, -b.numerator_)
                            : a * Rational(b.denominator_, b.numerator_);
  }
  friend bool operator<(const Rational& a, const Rational& b) { return (a - b).numerator_ < 0; }
  friend bool operator==(const Rational& a, const Rational& b) = default;

 private:
  __extension__ typedef __int128 Wide;

  Rational(Wide numerator, Wide denominator) {
    if (denominator == 0) throw std::domain_error("division by zero");
    const Wide common = greatest_divisor(numerator < 0 ? -numerator : numerator, denominator);
    numerator_ = numerator / common;
    denominator_ = denominator / common;
  }
  static Wide greatest_divisor(Wide a, Wide b) {
    while (b != 0) a = std::exchange(b, a % b);
    return a;
  }
  static Wide product(Wide a, Wide b) {
    Wide result = 0;
    if (__builtin_mul_overflow(a, b, &result)) throw std::overflow_error("fraction");
    return result;
  }
  static Wide sum(Wide a, Wide b) {
    Wide result = 0;
    if (__builtin_add_overflow(a, b, &result)) throw std::overflow_error("fraction");
    return result;
  }

  Wide numerator_;
  Wide denominator_;
};

/// One run of a program after the other, until every way its choices can fall was taken once.
class Branches {
 public:
  /// Takes one of the branches with a positive weight; the weights sum to 1.
  std::size_t choose(std::vector<Rational> weights) {
    if (made_ == choices_.size()) choices_.push_back({0, std::move(weights)});
    Choice& choice = choices_[made_++];
    while (!(Rational(0) < choice.weights.at(choice.taken))) ++choice.taken;
    probability_ = probability_ * choice.weights[choice.taken];
    return choice.taken;
  }
  /// Of the choices made in this run.
  const Rational& probability() const { return probability_; }

  /// Prepares the next run; false when none is left.
  bool next_run() {
    made_ = 0;
    probability_ = Rational(1);
    while (!choices_.empty()) {
      Choice& last = choices_.back();
      do {
        ++last.taken;
      } while (last.taken < last.weights.size() && !(Rational(0) < last.weights[last.taken]));
      if (last.taken < last.weights.size()) return true;
      choices_.pop_back();
    }
    return false;
  }

  // Decisions as the sampled rules make them (proposal.h).
  bool accept(NodeId, const Rational& probability) {
    return choose({probability, Rational(1) - probability}) == 0;
  }
  TokenId draw(NodeId, const Law<Rational>& law) { return draw(law); }
  TokenId draw(const Law<Rational>& law) {
    std::vector<Rational> weights;
    for (const auto& entry : law.entries) weights.push_back(entry.weight);
    return law.entries[choose(std::move(weights))].token;
  }

 private:
  struct Choice {
    std::size_t taken;
    std::vector<Rational> weights;
  };
  std::vector<Choice> choices_;
  std::size_t made_ = 0;
  Rational probability_{1};
};

/// Conditional laws of the next token by what came before ("" for nothing, "01" for tokens 0 and
/// 1).
template <typename Number>
using Conditionals = std::map<std::string, Law<Number>>;

/// A small tree whose target and draft are tables of conditionals. A target that is empty cannot be
/// told.
template <typename Value>
class TableTree {
 public:
  using Number = Value;

  TableTree(const Conditionals<Number>& p, const Conditionals<Number>& q)
      : p_(&p), q_(&q), prefix_(1), children_(1), is_drawn_(1) {}

  /// Gives a node its children, in the order in which they were proposed, and returns the first
  /// one's id.
  NodeId add(NodeId parent, std::span<const TokenId> tokens, bool drawn) {
    const auto first = static_cast<NodeId>(prefix_.size());
    is_drawn_[index(parent)] = drawn;
    for (const TokenId token : tokens) {
      children_[index(parent)].push_back(static_cast<NodeId>(prefix_.size()));
      prefix_.push_back(prefix_[index(parent)] + static_cast<char>('0' + token));
      children_.emplace_back();
      is_drawn_.push_back(false);
    }
    return first;
  }
  const std::string& prefix(NodeId node) const { return prefix_[index(node)]; }

  std::span<const NodeId> children(NodeId node) const {
    if (p_->at(prefix(node)).entries.empty()) return {};
    return children_[index(node)];
  }
  TokenId token(NodeId node) const { return prefix(node).back() - '0'; }
  Law<Number> target(NodeId node) const { return p_->at(prefix(node)); }
  const Law<Number>* drawn_from(NodeId node) const {
    return is_drawn_[index(node)] ? &q_->at(prefix(node)) : nullptr;
  }
  bool forbids(NodeId, TokenId) const { return false; }

 private:
  static std::size_t index(NodeId node) { return static_cast<std::size_t>(node); }

  const Conditionals<Number>* p_;
  const Conditionals<Number>* q_;
  std::vector<std::string> prefix_;
  std::vector<std::vector<NodeId>> children_;
  std::vector<bool> is_drawn_;
};

}  // namespace talon
