#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace talon {

/// Names of the classes of an image model: a file with a JSON list of texts in the order of the
/// classes, each one name or several with commas between ("tench, Tinca tinca").
class ClassNames {
 public:
  /// Throws Error naming the file and what is wrong with it, such as another number of texts.
  static ClassNames read(const std::filesystem::path& file, int classes);

  const std::vector<std::string>& texts() const { return texts_; }
  /// The class with that whole text, or else with that name, in letters of either case. Throws
  /// UsageError for a name that is not known, with those that are most like it, and for one of
  /// several classes, with their numbers.
  int find(std::string_view name) const;

 private:
  std::vector<std::string> texts_;
};

}  // namespace talon
