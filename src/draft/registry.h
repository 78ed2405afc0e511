#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "draft/drafter.h"

namespace talon {

/// `name:key=value,key=value`, parsed. take_*() read one option and mark it used; finish() throws UsageError for the first
/// option nobody took, naming it and the ones that exist.
class OptionText {
 public:
  explicit OptionText(std::string_view text);
  const std::string& name() const { return name_; }
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
  std::string name_;
  std::vector<Item> items_;
  std::vector<std::string> known_;
};

/// What a drafter may need to be made. Borrowed.
struct DrafterContext {
  const Model* target = nullptr;
};

/// A row of the explicit table of drafters: adding one is one .cpp file and one row. `help`, `bench` and the conformance tests iterate
/// over the table.
struct DrafterEntry {
  std::string_view name;
  std::string_view summary;  // one line, with the paper
  std::string_view options;  // "ngram=3 longest suffix matched; ..."
  std::unique_ptr<Drafter> (*make)(OptionText& options, const DrafterContext& context);
};
std::span<const DrafterEntry> drafters();

/// Makes the drafter that `text` (`ngram:nodes=8`) names. Throws UsageError listing the names that exist.
std::unique_ptr<Drafter> make_drafter(std::string_view text, const DrafterContext& context);

}  // namespace talon
