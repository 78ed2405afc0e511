#include "learn/learn_state.h"

#include <utility>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr long kMostCount = 100'000'000'000;
constexpr int kMostTau = 1'000'000;

std::filesystem::path file_in(const std::filesystem::path& folder) { return folder / "state.json"; }

void check_same(const std::filesystem::path& file, const char* field, const std::string& found,
                const std::string& expected) {
  if (found == expected) return;
  fail("learn: {}: \"{}\": expected {}, found {}: use another folder", quote(file.string()), field,
       quote(expected), quote(found));
}

/// The fields of state.json.
class Fields {
 public:
  Fields(const Json& json, std::string doing) : json_(json), doing_(std::move(doing)) {
    if (!json.is_object()) fail("{}: expected an object, found {}", doing_, json.dump());
  }
  std::string text(const char* field) const {
    const Json& value = at(field);
    if (!value.is_string()) refuse(field, "a text", value);
    return value;
  }
  std::string head(const char* field) const {
    std::string name = text(field);
    if (!name.empty() && !is_name_of_head(name)) {
      refuse(field, "\"\" or a name as \"heads/0001\"", at(field));
    }
    return name;
  }
  long count(const char* field) const {
    const Json& value = at(field);
    const bool fits = value.is_number_integer() && value >= 0 && value <= kMostCount;
    if (!fits) refuse(field, fmt::format("a whole number from 0 to {}", kMostCount), value);
    return value;
  }
  double tau(const char* field) const {
    const Json& value = at(field);
    const bool fits = value.is_number() && value >= 0 && value <= kMostTau;
    if (!fits) refuse(field, fmt::format("a number from 0 to {}", kMostTau), value);
    return value;
  }

 private:
  const Json& at(const char* field) const {
    const auto found = json_.find(field);
    if (found == json_.end()) fail("{}: expected \"{}\", found none", doing_, field);
    return *found;
  }
  [[noreturn]] void refuse(const char* field, const std::string& expected,
                           const Json& found) const {
    fail("{}: \"{}\": expected {}, found {}", doing_, field, expected, found.dump());
  }

  const Json& json_;
  std::string doing_;
};

}  // namespace

bool is_name_of_head(std::string_view name) {
  constexpr std::string_view kFolder = "heads/";
  if (!name.starts_with(kFolder)) return false;
  const std::string_view number = name.substr(kFolder.size());
  return number.size() >= 4 && number.size() <= 12 &&
         number.find_first_not_of("0123456789") == std::string_view::npos;
}

LearnState read_state(const std::filesystem::path& folder, const LearnState& fresh) {
  const std::filesystem::path path = file_in(folder);
  if (!std::filesystem::exists(path)) return fresh;
  const MappedFile file(path);
  const std::string doing = "learn: read " + quote(path.string());
  const Json json = parse_json(file.text(), doing);
  const Fields fields(json, doing);
  LearnState state;
  state.target_fingerprint = fields.text("target_fingerprint");
  state.kind = fields.text("kind");
  state.head = fields.head("head");
  state.rounds = fields.count("rounds");
  state.swaps = fields.count("swaps");
  state.fresh_tokens = fields.count("fresh_tokens");
  state.ordinary_tau = fields.tau("ordinary_tau");
  check_same(path, "target_fingerprint", state.target_fingerprint, fresh.target_fingerprint);
  check_same(path, "kind", state.kind, fresh.kind);
  return state;
}

void write_state(const std::filesystem::path& folder, const LearnState& state) {
  const Json json = {{"target_fingerprint", state.target_fingerprint},
                     {"kind", state.kind},
                     {"head", state.head},
                     {"rounds", state.rounds},
                     {"swaps", state.swaps},
                     {"fresh_tokens", state.fresh_tokens},
                     {"ordinary_tau", state.ordinary_tau}};
  const std::string text = json.dump(2) + "\n";
  write_file(file_in(folder), std::as_bytes(std::span(text)));
}

}  // namespace talon
