#include "cli/image/drawn.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/image/code_counts.h"
#include "bench/image/sample_time.h"

namespace talon {

PictureSums Drawn::sums(const ImagePlan& plan) const {
  PictureSums all;
  for (const auto& [index, answer] : pictures) all.add(plan, answer.tokens, answer.statistics);
  return all;
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

Json Drawn::numbers(const ImagePlan& plan) const {
  Json accepted = Json::array();
  double draft_ms = 0, check_ms = 0, sample_ms = 0;
  for (const auto& [index, answer] : pictures) {
    accepted.push_back(answer.statistics.accepted);
    draft_ms += answer.statistics.draft_ms;
    check_ms += answer.statistics.check_ms;
    sample_ms += sample_ms_of(answer.statistics);
  }
  const PictureSums all = sums(plan);
  Json json = summary_of(all);
  json.update({{"tokens", all.tokens},
               {"accepted", accepted},
               {"tau_foreground", tau_foreground(plan)},
               {"draft_ms", draft_ms},
               {"check_ms", check_ms},
               {"sample_ms", sample_ms},
               {"draw_ms", ms},
               {"images_s", all.pictures / ms * 1000}});
  return json;
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
