#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace talon {

/// `name:key=value,key=value`, parsed: how drafters, policies and rules are named. take_*() read
/// one option and mark it used; finish() throws UsageError for the first option nobody took, naming
/// it and the ones that exist.
class OptionText {
 public:
  /// Throws UsageError for an empty name, an option without `=`, or an option given twice.
  explicit OptionText(std::string_view text);
  const std::string& name() const { return name_; }

  /// The option's value, or `fallback` when it is absent. Throw UsageError for a value that is no
  /// number or out of range.
  int take_int(std::string_view key, int fallback, int least, int most);
  double take_double(std::string_view key, double fallback, double least, double most);
  std::string take_text(std::string_view key, std::string fallback);
  void finish() const;

 private:
  struct Item {
    std::string key;
    std::string value;
    bool used = false;
  };
  Item* take(std::string_view key);

  std::string name_;
  std::vector<Item> items_;
  std::vector<std::string> known_;
};

}  // namespace talon
