#pragma once

#include <string>
#include <string_view>

namespace talon {

/// The method that a request asks for: empty parts are the server's.
struct MethodChoice {
  std::string drafter;
  std::string policy;
  std::string verify;
};

/// Throws UsageError, beginning with the field, unless the choice names methods and options of
/// numbers and words: files and weights are named on the command line only.
void check_choice(const MethodChoice& choice);

/// What is wrong with one: `problem`, which begins with the part or what the part names, behind the
/// field.
std::string problem_of(const MethodChoice& choice, std::string_view problem);

/// As one text (runtime/method.h); empty: the server's own. drafter: what stands for none, whose
/// weights those of the same names have. Throws UsageError for options that cannot be read.
std::string text_of(const MethodChoice& choice, std::string_view drafter);

}  // namespace talon
