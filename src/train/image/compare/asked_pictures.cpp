#include "train/image/compare/asked_pictures.h"

#include <algorithm>

#include "core/error.h"
#include "image/png.h"

namespace talon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostWords = 5;  // of a prompt; scripts/icon_prompts.py

std::vector<fs::path> png_files(const fs::path& folder) {
  std::error_code problem;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    if (entry.path().extension() == ".png") files.push_back(entry.path());
  }
  if (problem) fail("read {}: {}", folder.string(), problem.message());
  if (files.empty()) fail("read {}: expected PNG files, found none", folder.string());
  std::ranges::sort(files);
  return files;
}

std::string prompt_in(const PngTexts& texts, const fs::path& file) {
  const auto prompt = std::ranges::find(texts, "prompt", &PngTexts::value_type::first);
  if (prompt == texts.end()) {
    fail("read {}: expected a text \"prompt\", as talon image writes it, found none",
         file.string());
  }
  return prompt->second;
}

}  // namespace

PicturesByPrompt::PicturesByPrompt(const PictureSet& pictures) : pictures_(pictures) {
  for (const bool held_out : {true, false}) {
    for (const std::size_t picture : pictures.split(held_out)) {
      if (const std::string prompt = prompt_of(picture); !prompt.empty())
        pictures_of_[prompt].push_back(picture);
    }
  }
}

std::string PicturesByPrompt::prompt_of(std::size_t picture) const {
  const PictureFacts& facts = pictures_.facts(picture);
  std::string prompt;
  for (std::size_t i = 0; i < std::min(facts.words.size(), kMostWords); ++i)
    prompt += pictures_.words()[static_cast<std::size_t>(facts.words[i])] + " ";
  if (!prompt.empty()) prompt += pictures_.styles()[static_cast<std::size_t>(facts.style)];
  return prompt;
}

const std::vector<std::size_t>& PicturesByPrompt::of(const std::string& prompt) const {
  static const std::vector<std::size_t> none;
  const auto found = pictures_of_.find(prompt);
  return found == pictures_of_.end() ? none : found->second;
}

AskedPictures read_drawn(const fs::path& folder, const PictureSet& data,
                         const PicturesByPrompt& by_prompt) {
  AskedPictures drawn;
  std::vector<torch::Tensor> pictures;
  for (const fs::path& file : png_files(folder)) {
    PngFile png = read_png(file, data.side());
    if (png.picture.width != data.side() || png.picture.height != data.side()) {
      fail("read {}: expected {} pixels a side, as the data have, found {} by {}", file.string(),
           data.side(), png.picture.width, png.picture.height);
    }
    drawn.prompts.push_back(prompt_in(png.texts, file));
    const auto& asked = by_prompt.of(drawn.prompts.back());
    if (asked.empty()) {
      fail("read {}: text \"prompt\": expected one of the data, found \"{}\"", file.string(),
           drawn.prompts.back());
    }
    drawn.wanted.push_back(asked.front());
    const torch::Tensor pixels = at::from_blob(
        png.picture.rgb.data(), {data.side(), data.side(), 3}, at::TensorOptions(torch::kByte));
    pictures.push_back(pixels.to(torch::kFloat).permute({2, 0, 1}) / 127.5 - 1);
  }
  drawn.pictures = at::stack(pictures);
  return drawn;
}

}  // namespace talon
