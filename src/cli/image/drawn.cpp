#include "cli/image/drawn.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "bench/image/code_counts.h"
#include "bench/image/sample_time.h"

namespace talon {

int Drawn::rounds() const {
  return std::accumulate(
      pictures.begin(), pictures.end(), 0,
      [](int sum, const FinishedPicture& one) { return sum + one.answer.statistics.rounds; });
}

int Drawn::codes() const {
  return std::accumulate(pictures.begin(), pictures.end(), 0,
                         [](int sum, const FinishedPicture& one) {
                           return sum + static_cast<int>(one.answer.tokens.size());
                         });
}

double Drawn::tau() const {
  const auto images = static_cast<double>(pictures.size());
  return rounds() > 0 ? (codes() - images) / rounds() : 1;
}

double Drawn::steps_compression() const {
  const std::size_t forwards = static_cast<std::size_t>(rounds()) + pictures.size();
  return static_cast<double>(codes()) / static_cast<double>(std::max<std::size_t>(1, forwards));
}

double Drawn::tau_foreground(const ImagePlan& plan) const {
  std::vector<std::span<const TokenId>> answers;
  for (const FinishedPicture& one : pictures) answers.emplace_back(one.answer.tokens);
  const TokenId background = commonest_code(plan, answers);
  int sum = 0, checks = 0;
  for (const auto& [index, answer] : pictures) {
    const CodeCounts counts =
        counts_of(plan, answer.tokens, answer.statistics.accepted, background);
    sum += counts.foreground_codes;
    checks += counts.foreground_rounds;
  }
  return static_cast<double>(sum) / std::max(1, checks);
}

double Drawn::relaxed() const {
  double sum = 0;
  int accepted = 0;
  for (const auto& [index, answer] : pictures) {
    const std::vector<int>& of_checks = answer.statistics.accepted;
    accepted = std::accumulate(of_checks.begin(), of_checks.end(), accepted);
    sum += answer.statistics.relaxed;
  }
  return sum / std::max(1, accepted);
}

double Drawn::sample_ms() const {
  double sum = 0;
  for (const FinishedPicture& one : pictures) sum += sample_ms_of(one.answer.statistics);
  return sum;
}

bool is_equal(const Drawn& a, const Drawn& b) {
  return std::ranges::equal(a.pictures, b.pictures,
                            [](const FinishedPicture& one, const FinishedPicture& other) {
                              return one.answer.tokens == other.answer.tokens;
                            });
}

std::vector<std::filesystem::path> picture_files(const std::filesystem::path& out, int pictures) {
  std::error_code ignored;
  const bool is_folder =
      !out.empty() && (!out.has_filename() || std::filesystem::is_directory(out, ignored));
  if (pictures == 1 && !is_folder) return {out};
  std::vector<std::filesystem::path> files;
  for (int i = 1; i <= pictures; ++i) {
    if (is_folder) {
      files.push_back(out / fmt::format("{:05}.png", i));
      continue;
    }
    files.push_back(out);
    files.back().replace_filename(
        fmt::format("{}-{}{}", out.stem().string(), i, out.extension().string()));
  }
  return files;
}

}  // namespace talon
