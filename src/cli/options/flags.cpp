#include "cli/options/flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace talon {

std::string flag_name(const std::string& names) {
  const std::size_t comma = names.rfind(',');
  return comma == std::string::npos ? names : names.substr(comma + 1);
}

std::string one_of(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

void fail_twice(const std::string& flag, const std::string& word) {
  throw UsageError(fmt::format("{}: \"{}\" is there twice", flag, word));
}

std::string no_empty_text(const std::string& text) {
  return text.empty() ? "expected a text, found an empty one" : "";
}

void require_each_once(const std::string& flag, const std::vector<std::string>& words) {
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (std::find(words.begin(), word, *word) != word) fail_twice(flag, *word);
  }
}

void fail_choice(const std::string& flag, const std::vector<std::string>& words,
                 const std::string& found) {
  throw UsageError(fmt::format("{}: expected {}, got \"{}\"", flag, one_of(words), found));
}

long long parse_int(std::string_view what, std::string_view text, long long least, long long most) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw UsageError(fmt::format("{}: expected a whole number from {} to {}, got \"{}\"", what,
                                 least, most, text));
  }
  return value;
}

double parse_real(std::string_view what, std::string_view text, double least, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(value >= least && value <= most)) {
    throw UsageError(
        fmt::format("{}: expected a number from {} to {}, got \"{}\"", what, least, most, text));
  }
  return value;
}

std::vector<std::string> split_list(std::string_view what, std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin)
      throw UsageError(fmt::format("{}: expected a word between commas, got \"{}\"", what, text));
    words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::vector<int> parse_int_list(std::string_view what, std::string_view text, int least, int most) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  std::vector<int> values;
  for (;;) {
    const std::size_t begin = text.find_first_not_of(kBetween);
    const bool may_separate = !values.empty() && begin != std::string_view::npos;
    if (std::ranges::count(text.substr(0, begin), ',') > (may_separate ? 1 : 0)) {
      throw UsageError(fmt::format("{}: expected a whole number between commas, found none", what));
    }
    if (begin == std::string_view::npos) return values;
    const std::size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    values.push_back(
        static_cast<int>(parse_int(what, text.substr(begin, end - begin), least, most)));
    text.remove_prefix(end);
  }
}

std::vector<TokenId> parse_ids(std::string_view what, std::string_view text) {
  return parse_int_list(what, text, 0, std::numeric_limits<TokenId>::max());
}

CLI::Option* add_int(CLI::App& app, const std::string& names, int& value, int least, int most,
                     const std::string& help) {
  const auto parse = [&value, least, most, flag = flag_name(names)](const std::string& text) {
    value = static_cast<int>(parse_int(flag, text, least, most));
  };
  return app.add_option_function<std::string>(names, parse, help)
      ->type_name("N")
      ->default_str(fmt::format("{}", value));
}

CLI::Option* add_count(CLI::App& app, const std::string& names, std::uint64_t& value,
                       const std::string& help) {
  const auto parse = [&value, flag = flag_name(names)](const std::string& text) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end) {
      throw UsageError(fmt::format("{}: expected a whole number from 0 to {}, got \"{}\"", flag,
                                   std::numeric_limits<std::uint64_t>::max(), text));
    }
  };
  return app.add_option_function<std::string>(names, parse, help)
      ->type_name("N")
      ->default_str(fmt::format("{}", value));
}

CLI::Option* add_real(CLI::App& app, const std::string& names, double& value, double least,
                      double most, const std::string& help) {
  const auto parse = [&value, least, most, flag = flag_name(names)](const std::string& text) {
    value = parse_real(flag, text, least, most);
  };
  return app.add_option_function<std::string>(names, parse, help)
      ->type_name("X")
      ->default_str(fmt::format("{}", value));
}

}  // namespace talon
