#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"

namespace talon {

// What the value of an option may be.
struct WholeNumber {
  int least;
  int most;
};
struct WholeNumbers {  // 5/7/9
  int least;
  int most;
};
struct RealNumber {
  double least;
  double most;
};
struct OneOf {
  std::vector<std::string> words;
};
struct FreeText {
  std::string placeholder;  // what help shows for it: PATH
};
using OptionKind = std::variant<WholeNumber, WholeNumbers, RealNumber, OneOf, FreeText>;

/// An option of a drafter, policy or rule. What reads it, the messages about it and its help are
/// made of this one declaration.
struct Option {
  std::string name;
  OptionKind kind;
  std::string usual;    // its value when it is not given; empty: what `meaning` says
  std::string meaning;  // one line of help
  bool required = false;
};

/// `nodes=32`, or `head=PATH` for one without a usual value.
std::string usage_of(const Option& option);
/// `a whole number from 1 to 64`
std::string expected_of(const OptionKind& kind);

/// Both, one after the other.
std::vector<Option> joined(std::vector<Option> options, const std::vector<Option>& more);
/// The first one that must be given; null: there is none.
const Option* find_required(std::span<const Option> options);

/// `name:key=value,key=value` in its parts: how drafters, policies and rules are named. Throws
/// UsageError for an empty name, an option without `=`, or an option given twice.
struct OptionText {
  explicit OptionText(std::string_view text);

  struct Item {
    std::string key;
    std::string value;
  };
  std::string name;
  std::vector<Item> items;
};

/// The values of what is declared for a name: those given, else the usual ones.
class Options {
 public:
  /// Throws UsageError for an option that is not declared, for a value that is not of its kind and
  /// for a required one that is missing.
  Options(OptionText text, std::span<const Option> declared);
  const std::string& name() const { return name_; }
  bool is_given(std::string_view key) const { return entries_[place(key)].is_given; }

  /// REQUIRES: declared, as of that kind; numbers have a value, given or usual.
  int whole(std::string_view key);
  int whole_or(std::string_view key, int otherwise);  // for one without a usual value
  std::vector<int> wholes(std::string_view key);      // none without a value
  double real(std::string_view key);
  const std::string& text(std::string_view key);  // of OneOf and FreeText; empty without a value

  /// REQUIRES: every declared option was read: help promises none that nobody reads.
  void finish() const;
  /// Throws UsageError for the value of an option.
  [[noreturn]] void misuse(std::string_view key, std::string_view expected) const;

 private:
  struct Entry {
    Option option;
    std::string value;
    bool is_given = false;
    bool is_read = false;
  };
  std::size_t place(std::string_view key) const;
  template <typename Kind>
  std::pair<Kind, std::string_view> read(std::string_view key);

  std::string name_;
  std::vector<Entry> entries_;
};

/// The row of a table that is called `name`; null: there is none.
template <typename Row>
const Row* find_row(std::span<const Row> table, std::string_view name) {
  for (const Row& row : table) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

/// Makes what `text` names by its row's `make(options, context...)`. Throws UsageError that lists
/// the names that exist.
template <typename Row, typename... Context>
auto make_from(std::string_view what, std::span<const Row> table, std::string_view text,
               const Context&... context) {
  OptionText parts(text);
  const Row* row = find_row(table, parts.name);
  if (!row) {
    std::vector<std::string_view> names;
    for (const Row& other : table) names.push_back(other.name);
    throw UsageError(fmt::format("{}: expected one of {}, found \"{}\"", what,
                                 fmt::join(names, ", "), parts.name));
  }
  Options options(std::move(parts), row->options);
  auto made = row->make(options, context...);
  options.finish();
  return made;
}

}  // namespace talon
