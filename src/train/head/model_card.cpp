#include "train/head/model_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <span>

#include "io/atomic_file.h"

namespace talon {
namespace {

/// A comma-separated file as a Markdown table.
std::string table_of(const std::filesystem::path& file) {
  std::ifstream input(file);
  std::string table, line;
  bool is_title = true;
  while (std::getline(input, line)) {
    std::string row = "| ";
    for (const char letter : line) row += letter == ',' ? std::string(" | ") : std::string{letter};
    table += row + " |\n";
    if (!is_title) continue;
    table += '|';
    for (std::ptrdiff_t i = 0; i <= std::count(line.begin(), line.end(), ','); ++i) table += "---|";
    table += '\n';
    is_title = false;
  }
  return table;
}

std::string card(const HeadTrainResult& result, const std::filesystem::path& evaluations) {
  const Json& facts = result.facts;
  const auto text = [&](const char* name) { return facts.value(name, Json()).dump(); };
  std::string out = fmt::format("# Draft head for {}\n\n", facts.value("target", "its target"));
  out += fmt::format(
      "Kind {}, trained by `talon train head` on the target's own answers.\n\n"
      "| what | value |\n|---|---|\n"
      "| sha256 of the target | {} |\n"
      "| conversations, response tokens | {}, {} |\n"
      "| pairs trained, iterations, epochs | {}, {}, {} |\n"
      "| seconds of training | {} |\n"
      "| draft vocabulary, its share of the response tokens | {}, {} |\n"
      "| settings | `{}` |\n",
      facts.at("settings").value("kind", ""), facts.value("target_sha256", ""),
      text("conversations"), text("response_tokens"), text("pairs_trained"), text("iterations"),
      text("epochs"), text("seconds"), text("draft_vocabulary"), text("draft_vocabulary_coverage"),
      text("settings"));
  if (result.scores.empty()) return out;
  out +=
      "\nTokens per check of the target on the questions of the run:\n\n| tree | tau "
      "|\n|---|---|\n";
  for (const auto& [name, tau] : result.scores) out += fmt::format("| {} | {:.3f} |\n", name, tau);
  return out + "\nMeasured during training:\n\n" + table_of(evaluations);
}

}  // namespace

void write_model_card(const HeadTrainResult& result, const std::filesystem::path& evaluations) {
  const std::string text = card(result, evaluations);
  write_file(result.head / "README.md", std::as_bytes(std::span(text)));
}

}  // namespace talon
