#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/json.h"

namespace talon {

struct HeadShape;
struct LossOptions;
struct ModelConfig;
struct OptimizerOptions;

/// What `talon train head` was asked for. Zeroes mean "no limit" or "off".
struct HeadTrainOptions {
  std::string kind = "eagle3";  // one of kTrainedKinds (head_kind.h)
  std::vector<std::string> data;
  std::string out;
  double epochs = 3;      // of the data as it is when training starts
  double minutes = 0;     // of training; the schedule ends with whichever limit comes first
  int batch = 2048;       // pairs of one optimiser step, per process
  int steps = 5;          // most unrolled steps (Medusa: heads; dflash, peagle: places; not draft)
  int intermediate = 0;   // of the layer's MLP; 0: as many as the target's (not Medusa)
  int medusa_layers = 1;  // residual blocks of each Medusa head
  int layers = 2;         // of dflash, peagle and draft
  int anchors = 16;       // of the former two, blocks learned of each answer in a step
  double rate = 1e-3;
  std::string decline = "linear";  // linear, cosine
  int warmup = 20;
  double clip = 1.0;
  double weight_decay = 0;
  double average = 0.998;
  std::string weights = "full";  // whose rounding it learns in: full, int4 (HeadOptions::layout)
  double soft = 1, top = 0, hard = 0, acceptance = 0, variation = 0, coupled = 0;
  double feature = -1;           // -1: as the kind wants
  double noise = 0;              // added to EAGLE-1 features, uniform in +- noise * their size
  int loss_tokens = 4096;        // frequent tokens in the loss, beside those of the batch
  int draft_vocabulary = 12288;  // rows of the exported output matrix; 0 and draft: all tokens
  int max_tokens = 1024;         // of a conversation
  std::uint64_t seed = 1;
  int log_every = 20;      // iterations
  int evaluate_every = 0;  // iterations; 0: at the end only
  int patience = 0;        // evaluations without a better one after which it stops
  int checkpoint_every = 200;
  int threads = 1;
  std::string device = "cpu";
  std::string precision = "bf16";  // of matrix products: bf16, f32
  int rank = 0, ranks = 1;
  std::string meet;   // a file where the processes of one run find each other
  std::string start;  // checkpoint or exported head to start from; empty: the target's layer
};

/// Throws UsageError for sizes that a head of the target cannot have, and for options that exclude
/// each other.
void check_options(const HeadTrainOptions& options, const ModelConfig& target);

/// Puts in what the options leave to the kind and the target: the size of the draft vocabulary, and
/// a draft model's one step.
void settle(HeadTrainOptions& options, const ModelConfig& target);

/// Whether its matrices and output rows are rounded to four bits while it learns.
bool learns_rounded(const HeadTrainOptions& options);

OptimizerOptions optimizer_options(const HeadTrainOptions& options);
/// feature_rms: as LossOptions::feature_rms.
LossOptions loss_options(const HeadTrainOptions& options, double feature_rms);
/// Those that the options choose.
void set_sizes(const HeadTrainOptions& options, const ModelConfig& target, HeadShape& shape);

/// The settings that a resumed run must share with the one it resumes.
Json settings_of(const HeadTrainOptions& options, const std::string& target_sha256);

}  // namespace talon
