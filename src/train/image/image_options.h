#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/json.h"

namespace talon {

/// How long and how fast a network is trained on pictures.
struct ImageSchedule {
  std::string out;
  std::string start;       // checkpoint whose values are begun with; empty: at random
  double epochs = 10;      // over the pictures that are not held out
  std::int64_t count = 0;  // of those pictures; the task says
  int batch = 32;          // pictures of a step
  double rate = 1e-3;
  int warmup = 50;  // iterations
  double clip = 1;
  double weight_decay = 0.05;
  std::uint64_t seed = 1;
  int log_every = 20, evaluate_every = 500, checkpoint_every = 100;  // iterations
  int threads = 1;
  std::string precision = "bf16";  // of products: bf16, f32
};

/// The settings that a resumed run must share with the one it resumes, and epochs, which may
/// change.
Json settings_of(const ImageSchedule& schedule);

/// `talon train image tokenizer`
struct TokenizerOptions {
  std::string data;  // folder of scripts/icons.mjs
  ImageSchedule schedule;
  int channels = 32;
  std::vector<int> multipliers = {1, 2, 2};
  int blocks = 1;
  int latent = 64;
  int codes = 1024;
  int code_width = 8;
  int shift = 3;         // most pixels that a picture is moved by
  int free_steps = 200;  // first iterations, whose vectors are not quantised
  double commitment = 0.25, edges = 0.4, means = 0.5;  // weights of the losses beside L1
};

/// `talon train image codes`
struct CodesOptions {
  std::string data;       // folder
  std::string tokenizer;  // folder of `talon train image tokenizer`, or file of a published one
  std::string out;
  int views = 10;  // of each picture; the first is the picture itself
  int shift = 3;
  int batch = 32;
  std::uint64_t seed = 1;
  int threads = 1;
  std::string precision = "f32";
};

/// `talon train image model`
struct ImageModelOptions {
  std::string data, codes;              // folders; the second of `talon train image codes`
  std::vector<std::string> categories;  // of the pictures; empty: all
  ImageSchedule schedule;
  int hidden = 256, layers = 8, head_dim = 64;
  int intermediate = 0;  // 0: as LlamaGen
  int prefix = 6;        // rows: words of the name, null words, the style
  double dropout = 0.1;
  double unconditional = 0.1;  // share of pictures without words
};

/// `talon train image features`
struct FeaturesOptions {
  std::string data;
  ImageSchedule schedule;
  int width = 32;      // channels of the first layer
  int features = 128;  // of a picture
  int shift = 3;
};

/// `talon train image compare`
struct CompareOptions {
  std::string data, features;  // folders; the second of `talon train image features`
  std::string tokenizer;       // of `talon train image tokenizer`; empty: none
  /// Folders of PNG files that `talon image` or `talon bench image` drew, of prompts of `data`.
  std::vector<std::string> sets;
  int threads = 1;
};

}  // namespace talon
