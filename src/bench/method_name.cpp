#include "bench/method_name.h"

#include <vector>

namespace talon {
namespace {

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool is_file_of_the_model(std::string_view option) {
  return option.starts_with("head=") || option.starts_with("stage_head=") ||
         option.starts_with("codebook=");
}

std::string short_part(std::string_view part) {
  const std::size_t colon = part.find(':');
  std::string name(part.substr(0, colon));
  if (colon == part.npos) return name;
  std::string kept;
  for (const std::string& option : split(part.substr(colon + 1), ',')) {
    if (is_file_of_the_model(option)) continue;
    const std::size_t equals = option.find('='), slash = option.rfind('/');
    const bool is_path = option.starts_with("model=") && slash != option.npos;
    const std::string told =
        is_path ? option.substr(0, equals + 1) + option.substr(slash + 1) : option;
    kept += (kept.empty() ? ":" : ",") + told;
  }
  return name + kept;
}

}  // namespace

std::string short_method_name(std::string_view method) {
  const std::size_t at = method.find('@');
  std::string name;
  for (const std::string& part : split(method.substr(0, at), '+'))
    name += (name.empty() ? "" : "+") + short_part(part);
  if (at == method.npos) return name;
  for (const std::string& part : split(method.substr(at + 1), '@')) name += "@" + short_part(part);
  return name;
}

}  // namespace talon
