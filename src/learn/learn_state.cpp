#include "learn/learn_state.h"

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"

namespace talon {
namespace {

std::filesystem::path file_in(const std::filesystem::path& folder) { return folder / "state.json"; }

void check_same(const std::filesystem::path& file, const char* field, const std::string& found,
                const std::string& expected) {
  if (found == expected) return;
  fail("learn: {}: \"{}\": expected {}, found {}: use another folder", quote(file.string()), field,
       quote(expected), quote(found));
}

}  // namespace

LearnState read_state(const std::filesystem::path& folder, const LearnState& fresh) {
  const std::filesystem::path path = file_in(folder);
  if (!std::filesystem::exists(path)) return fresh;
  const MappedFile file(path);
  const std::string doing = "learn: read " + quote(path.string());
  const Json json = parse_json(file.text(), doing);
  LearnState state;
  try {
    json.at("target_fingerprint").get_to(state.target_fingerprint);
    json.at("kind").get_to(state.kind);
    json.at("head").get_to(state.head);
    json.at("rounds").get_to(state.rounds);
    json.at("swaps").get_to(state.swaps);
    json.at("fresh_tokens").get_to(state.fresh_tokens);
    json.at("ordinary_tau").get_to(state.ordinary_tau);
  } catch (const Json::exception& problem) {
    fail("{}: {}", doing, problem.what());
  }
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
