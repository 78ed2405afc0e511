#include "cli/image/drawn.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

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
