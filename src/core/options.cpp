#include "core/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace talon {
namespace {

template <typename... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

/// The whole of `text` as a number of that range; empty when it is anything else.
template <typename T>
std::optional<T> parse(std::string_view text, T least, T most) {
  T number{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && stop == text.data() + text.size();
  if (!is_whole || !(number >= least && number <= most)) return std::nullopt;
  return number;
}

/// `5/7/9`
std::optional<std::vector<int>> parse_list(std::string_view text, int least, int most) {
  std::vector<int> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const auto number = parse(text.substr(begin, end - begin), least, most);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    begin = end + 1;
  }
  return numbers;
}

bool fits(const OptionKind& kind, const std::string& value) {
  return std::visit(
      Overloaded{
          [&](const WholeNumber& k) { return parse(value, k.least, k.most).has_value(); },
          [&](const WholeNumbers& k) { return parse_list(value, k.least, k.most).has_value(); },
          [&](const RealNumber& k) { return parse(value, k.least, k.most).has_value(); },
          [&](const OneOf& k) {
            return std::find(k.words.begin(), k.words.end(), value) != k.words.end();
          },
          [&](const FreeText&) { return !value.empty(); }},
      kind);
}

std::string placeholder_of(const OptionKind& kind) {
  const auto* text = std::get_if<FreeText>(&kind);
  if (text) return text->placeholder;
  if (std::holds_alternative<WholeNumbers>(kind)) return "N/N/...";
  return std::holds_alternative<OneOf>(kind) ? "WORD" : "N";
}

std::string names_of(std::span<const Option> options) {
  std::vector<std::string_view> names;
  for (const Option& option : options) names.push_back(option.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string usage_of(const Option& option) {
  return fmt::format("{}={}", option.name,
                     option.usual.empty() ? placeholder_of(option.kind) : option.usual);
}

std::vector<Option> joined(std::vector<Option> options, const std::vector<Option>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

const Option* find_required(std::span<const Option> options) {
  const auto place = std::find_if(options.begin(), options.end(),
                                  [](const Option& option) { return option.required; });
  return place == options.end() ? nullptr : &*place;
}

std::string expected_of(const OptionKind& kind) {
  return std::visit(
      Overloaded{[](const WholeNumber& k) {
                   return fmt::format("a whole number from {} to {}", k.least, k.most);
                 },
                 [](const WholeNumbers& k) {
                   return fmt::format("whole numbers from {} to {} with / between", k.least,
                                      k.most);
                 },
                 [](const RealNumber& k) {
                   return fmt::format("a number from {} to {}", k.least, k.most);
                 },
                 [](const OneOf& k) { return fmt::format("one of {}", fmt::join(k.words, ", ")); },
                 [](const FreeText& k) { return k.placeholder; }},
      kind);
}

OptionText::OptionText(std::string_view text) {
  const std::size_t colon = text.find(':');
  name = text.substr(0, colon);
  if (name.empty())
    fail_usage("options \"{}\": expected NAME or NAME:KEY=VALUE,..., found no name", text);
  if (colon == std::string_view::npos) return;

  std::string_view rest = text.substr(colon + 1);
  while (true) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      fail_usage("options \"{}\": expected KEY=VALUE, found \"{}\"", text, item);
    }
    const std::string key(item.substr(0, equals));
    for (const Item& other : items) {
      if (other.key == key) fail_usage("options \"{}\": {} is given twice", text, key);
    }
    items.push_back({key, std::string(item.substr(equals + 1))});
    if (item.size() == rest.size()) return;
    rest.remove_prefix(item.size() + 1);
  }
}

Options::Options(OptionText text, std::span<const Option> declared) : name_(std::move(text.name)) {
  for (const Option& option : declared) {
    expects(option.usual.empty() || fits(option.kind, option.usual),
            "a usual value could be given");
    entries_.push_back({option, option.usual});
  }
  for (OptionText::Item& item : text.items) {
    const auto same_name = [&](const Entry& entry) { return entry.option.name == item.key; };
    const auto entry = std::find_if(entries_.begin(), entries_.end(), same_name);
    if (entry == entries_.end()) {
      if (declared.empty()) fail_usage("{}: takes no options, found \"{}\"", name_, item.key);
      fail_usage("{}: no option \"{}\"; it has {}", name_, item.key, names_of(declared));
    }
    entry->value = std::move(item.value);
    entry->is_given = true;
    if (!fits(entry->option.kind, entry->value)) misuse(item.key, expected_of(entry->option.kind));
  }
  for (const Entry& entry : entries_) {
    if (entry.option.required && !entry.is_given)
      fail_usage("{}: needs {}: {}", name_, usage_of(entry.option), entry.option.meaning);
  }
}

std::size_t Options::place(std::string_view key) const {
  std::size_t place = 0;
  while (place < entries_.size() && entries_[place].option.name != key) ++place;
  expects(place < entries_.size(), fmt::format("{}: that \"{}\" is declared", name_, key));
  return place;
}

template <typename Kind>
std::pair<Kind, std::string_view> Options::read(std::string_view key) {
  Entry& entry = entries_[place(key)];
  entry.is_read = true;
  return {std::get<Kind>(entry.option.kind), entry.value};
}

int Options::whole(std::string_view key) {
  const auto [kind, value] = read<WholeNumber>(key);
  return parse(value, kind.least, kind.most).value();
}

int Options::whole_or(std::string_view key, int otherwise) {
  const auto [kind, value] = read<WholeNumber>(key);
  return value.empty() ? otherwise : parse(value, kind.least, kind.most).value();
}

std::vector<int> Options::wholes(std::string_view key) {
  const auto [kind, value] = read<WholeNumbers>(key);
  return value.empty() ? std::vector<int>() : parse_list(value, kind.least, kind.most).value();
}

double Options::real(std::string_view key) {
  const auto [kind, value] = read<RealNumber>(key);
  return parse(value, kind.least, kind.most).value();
}

const std::string& Options::text(std::string_view key) {
  Entry& entry = entries_[place(key)];
  entry.is_read = true;
  return entry.value;
}

void Options::finish() const {
  for (const Entry& entry : entries_)
    expects(entry.is_read, fmt::format("{}: that \"{}\" is read", name_, entry.option.name));
}

void Options::misuse(std::string_view key, std::string_view expected) const {
  const std::string& found = entries_[place(key)].value;
  fail_usage("{}: option {}: expected {}, found \"{}\"", name_, key, expected, found);
}

}  // namespace talon
