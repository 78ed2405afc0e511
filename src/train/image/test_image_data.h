#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/scratch_folder.h"
#include "io/formats/write_safetensors.h"
#include "train/image/image_options.h"
#include "train/image/training_run.h"

/// Small data sets of pictures and short runs, for tests.
namespace talon::image_data_test {

class Folder : public ScratchFolder {
 public:
  std::filesystem::path operator/(const char* name) const { return path() / name; }
  std::string string() const { return path().string(); }
};

inline std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream input(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

/// Squares of 16 pixels with a bright box on a colour, in two styles; the last ones are held out.
/// blue: of the colours.
inline void write_pictures(const Folder& folder, int count, int held_out = 1, int blue = 128) {
  constexpr int kSide = 16;
  std::vector<std::uint8_t> pixels;
  std::string index;
  for (int i = 0; i < count; ++i) {
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const bool box = x / 4 == i % 4 && y / 4 == i / 4 % 4;
        for (const int color : {40 + 20 * i, 255 - 25 * i, blue})
          pixels.push_back(static_cast<std::uint8_t>(box ? 255 : color % 256));
      }
    }
    const Json line = {{"style", i % 2 == 0 ? "flat" : "round"},
                       {"name", "box-" + std::to_string(i)},
                       {"words", {"box", "n" + std::to_string(i)}},
                       {"category", i < 4 ? "first" : "second"},
                       {"split", i + held_out >= count ? "held-out" : "train"}};
    index += line.dump() + "\n";
  }
  Json words = {{"styles", {"flat", "round"}}, {"words", {"box"}}};
  for (int i = 0; i < count; ++i) words["words"].push_back("n" + std::to_string(i));
  std::ofstream(folder / "index.jsonl") << index;
  std::ofstream(folder / "words.json") << words.dump();
  const TensorToWrite tensor{
      "pictures", StorageType::u8, {count, kSide, kSide, 3}, std::as_bytes(std::span(pixels))};
  write_safetensors(folder / "pictures.safetensors", std::span(&tensor, 1));
}

inline ImageSchedule small_schedule(const std::filesystem::path& out, double epochs, double rate) {
  ImageSchedule schedule;
  schedule.out = out.string();
  schedule.epochs = epochs;
  schedule.batch = 8;
  schedule.rate = rate;
  schedule.warmup = 5;
  schedule.weight_decay = 0;
  schedule.log_every = 1;
  schedule.precision = "f32";
  return schedule;
}

inline TrainingHooks quiet() {
  TrainingHooks hooks;
  hooks.log = [](std::string_view) {};
  return hooks;
}

}  // namespace talon::image_data_test
