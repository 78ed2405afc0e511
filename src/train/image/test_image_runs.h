#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "core/error.h"
#include "train/image/picture_codes.h"
#include "train/image/test_image_data.h"
#include "train/image/train_image_model.h"
#include "train/image/train_tokenizer.h"

/// Runs of the trainer that take a second, for tests.
namespace talon::image_data_test {

inline TokenizerOptions small_tokenizer(const Folder& data, const std::filesystem::path& out,
                                        double epochs) {
  TokenizerOptions options;
  options.data = data.string();
  options.schedule = small_schedule(out, epochs, 3e-3);
  options.multipliers = {1, 1, 1};
  options.latent = 32;
  options.codes = 64;
  options.shift = 0;
  options.free_steps = 10;
  return options;
}

/// Stops at the nth line of its log.
struct Stopper {
  explicit Stopper(int lines) : left(lines) {
    hooks.log = [this](std::string_view) {
      if (--left == 0) stop.request();
    };
    hooks.stop = &stop;
  }
  int left;
  StopFlag stop;
  TrainingHooks hooks;
};

inline void make_tokenizer(const Folder& data, const std::filesystem::path& out, double epochs) {
  ASSERT_TRUE(train_tokenizer(small_tokenizer(data, out, epochs), quiet()).finished);
}

inline CodesOptions small_codes(const Folder& data) {
  CodesOptions options;
  options.data = data.string();
  options.tokenizer = (data / "tokenizer").string();
  options.out = (data / "codes").string();
  options.views = 1;
  return options;
}

/// Nine pictures, of which the last is held out, and the codes that a tokenizer makes of them.
struct CodedFolder : Folder {
  CodedFolder() {
    write_pictures(*this, 9);
    make_tokenizer(*this, *this / "tokenizer", 40);
    EXPECT_TRUE(make_codes(small_codes(*this), quiet()));
  }
};

inline ImageModelOptions small_model(const Folder& data, const std::filesystem::path& out,
                                     double epochs) {
  ImageModelOptions options;
  options.data = data.string();
  options.codes = (data / "codes").string();
  options.schedule = small_schedule(out, epochs, 1e-2);
  options.hidden = 32;
  options.layers = 2;
  options.head_dim = 16;
  options.intermediate = 64;
  options.dropout = 0;
  options.unconditional = 0;
  return options;
}

/// Stops at a line that begins so, or is ended there as if the process were.
struct Ender {
  Ender(std::string_view line, bool is_killed) {
    hooks.log = [this, line, is_killed](std::string_view said) {
      if (!said.starts_with(line)) return;
      if (is_killed) fail("killed");
      stop.request();
    };
    hooks.stop = &stop;
  }
  StopFlag stop;
  TrainingHooks hooks;
};

}  // namespace talon::image_data_test
