#include "io/json_text.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "io/quote.h"

namespace talon {

namespace {

/// What the parser says of the place and of what it found there: of a text that it read to there,
/// which may be long, the end.
std::string reason_of(std::string_view said) {
  constexpr std::string_view kPlace = "parse error at ", kSyntax = ": syntax error ",
                             kRead = "last read: '";
  constexpr std::size_t kMostRead = 32;
  const std::size_t place = said.find(kPlace), syntax = said.find(kSyntax);
  if (place == said.npos || syntax == said.npos) return escape(said.substr(said.find(' ') + 1));
  const std::size_t begin = place + kPlace.size();
  std::string reason = escape(said.substr(begin, syntax - begin)) + ": ";
  said.remove_prefix(std::min(said.find("- ", syntax) + 2, said.size()));
  const std::size_t read = said.find(kRead), end = said.rfind('\'');
  if (read == said.npos) return reason + escape(said);
  const std::string_view text = said.substr(read + kRead.size(), end - read - kRead.size());
  reason += escape(said.substr(0, read)) + "last read: ";
  if (text.size() > kMostRead) reason += "...";
  return reason + quote(text.substr(text.size() - std::min(text.size(), kMostRead)));
}

/// Throws for what parse_json refuses, before anything is made of it. Callbacks of the parser that
/// makes values are no place for this: it goes through all of an object or array whenever one
/// within it ends.
class TextCheck : public Json::json_sax_t {
 public:
  explicit TextCheck(std::string_view doing) : doing_(doing) {}

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t&) override { return count(); }
  bool binary(binary_t&) override { return count(); }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    if (!keys_.back().insert(key).second) fail("{}: key {}: found twice", doing_, quote(key));
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    fail("{}: expected JSON text: {}", doing_, reason_of(error.what()));
  }

 private:
  bool count() {
    if (++values_ > kMostJsonValues) {
      fail("{}: expected at most {} values, found more", doing_, kMostJsonValues);
    }
    return true;
  }
  bool open() {
    constexpr std::size_t kDeepest = 64;
    if (keys_.size() == kDeepest) {
      fail("{}: expected at most {} values within each other, found more", doing_, kDeepest);
    }
    keys_.emplace_back();
    return count();
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  std::string_view doing_;
  std::size_t values_ = 0;
  std::vector<std::set<std::string>> keys_;  // of the objects and arrays that are open
};

}  // namespace

Json parse_json(std::string_view text, std::string_view doing) {
  TextCheck check(doing);
  Json::sax_parse(text, &check);
  return Json::parse(text);
}

}  // namespace talon
