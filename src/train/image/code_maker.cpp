#include "train/image/code_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "core/error.h"
#include "image/vq_encoder.h"
#include "io/atomic_file.h"
#include "io/formats/write_safetensors.h"
#include "io/mapped_file.h"
#include "io/pictures/vq_names.h"
#include "io/sha256.h"
#include "train/image/network/precision.h"
#include "train/image/stored_tokenizer.h"

namespace talon {
namespace {

using torch::Tensor;

// What a tokenizer is made of; files of training runs hold other networks beside it.
constexpr std::string_view kTokenizerParts[] = {"quantize.", "quant_conv.", "post_quant_conv.",
                                                "encoder.", "decoder."};

class TrainedCodeMaker : public CodeMaker {
 public:
  TrainedCodeMaker(const CodesOptions& options, int side)
      : folder_(options.tokenizer), tokenizer_(folder_, low_type(options.precision)) {
    if (tokenizer_.side() == side) return;
    fail(
        "train image codes: pictures of {}: expected {} pixels a side, as the tokenizer has, found "
        "{}",
        options.data, tokenizer_.side(), side);
  }
  int codes() const override { return tokenizer_.shape().codes; }
  int grid() const override { return tokenizer_.grid(); }
  const std::string& sha256() const override { return tokenizer_.sha256(); }
  Tensor codes_of(const Tensor& pictures) const override {
    return tokenizer_.codes_of(pictures).to(torch::kInt);
  }
  void write(const std::filesystem::path& file) const override {
    const MappedFile weights(folder_ / kTokenizerFile);
    write_file(file, weights.bytes());
  }

 private:
  std::filesystem::path folder_;
  StoredTokenizer tokenizer_;
};

class PublishedCodeMaker : public CodeMaker {
 public:
  PublishedCodeMaker(const CodesOptions& options, int side)
      : checkpoint_(open_checkpoint(options.tokenizer)),
        encoder_(checkpoint_, side, side, options.threads),
        sha256_(sha256_of_file(options.tokenizer)) {}
  int codes() const override { return encoder_.codes(); }
  int grid() const override { return encoder_.columns(); }
  const std::string& sha256() const override { return sha256_; }

  Tensor codes_of(const Tensor& pictures) const override {
    const Tensor rows = pictures.permute({0, 2, 3, 1}).contiguous();
    const std::int64_t count = rows.size(0), cells = std::int64_t{grid()} * grid();
    const auto size = static_cast<std::size_t>(rows.size(1) * rows.size(2) * rows.size(3));
    const float* from = rows.data_ptr<float>();
    Tensor codes = torch::empty({count, cells}, torch::kInt);
    int* to = codes.data_ptr<int>();
    for (std::int64_t i = 0; i < count; ++i, from += size)
      to = std::ranges::copy(encoder_.codes_of({from, size}), to).out;
    return codes;
  }

  void write(const std::filesystem::path& file) const override {
    const std::string prefix = vq_prefix(checkpoint_);
    std::vector<TensorToWrite> tensors;
    for (const StoredTensor& tensor : checkpoint_.tensors) {
      const auto begins = [&](std::string_view part) {
        return tensor.name.starts_with(prefix + std::string(part));
      };
      if (std::ranges::any_of(kTokenizerParts, begins))
        tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
    }
    write_safetensors(file, tensors);
  }

 private:
  Checkpoint checkpoint_;
  VqEncoder encoder_;
  std::string sha256_;
};

}  // namespace

std::unique_ptr<CodeMaker> open_code_maker(const CodesOptions& options, int side) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(options.tokenizer, ignored))
    return std::make_unique<TrainedCodeMaker>(options, side);
  if (options.precision != "f32") {
    throw UsageError(
        fmt::format("train image codes --precision: expected f32 with a tokenizer's file, got {}",
                    options.precision));
  }
  return std::make_unique<PublishedCodeMaker>(options, side);
}

}  // namespace talon
