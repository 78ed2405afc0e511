#include <gtest/gtest.h>

#include <algorithm>

#include "backend/reference/reference.h"
#include "draw/picture_prompt.h"
#include "io/formats/write_safetensors.h"
#include "io/pictures/vq_names.h"
#include "io/test_files.h"
#include "io/test_pictures.h"

// Where the tokenizer of a model's codes is looked for.
namespace talon::picture_tokenizer_test {
namespace {

namespace fs = std::filesystem;

fs::path unpack(const std::string& name, const std::string& of = "") {
  return test::unpack_picture("talon_picture_tokenizer" + of, name);
}

/// The tiny Anole of tests/data/golden/images/record.py with tensors of its tokenizer among its
/// own: those whose names begin with one of `parts`.
fs::path folder_with(const std::vector<std::string>& parts) {
  const fs::path file = unpack("anole/model.safetensors", parts.back());
  const Checkpoint model = open_checkpoint(file);
  const Checkpoint tokenizer = open_checkpoint(unpack("chameleon_vq.pt"));
  std::vector<TensorToWrite> all;
  for (const StoredTensor& tensor : model.tensors)
    all.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
  for (const StoredTensor& tensor : tokenizer.tensors) {
    const auto begins = [&](const std::string& part) { return tensor.name.starts_with(part); };
    if (std::ranges::any_of(parts, begins))
      all.push_back({"model.vqmodel." + tensor.name, tensor.type, tensor.shape, tensor.bytes});
  }
  write_safetensors(file, all);
  return file.parent_path();
}

TEST(PictureTokenizer, IsFoundWithinAModelThatHoldsItsDecoder) {
  const auto backend = make_reference_backend(1);
  const fs::path folder = folder_with({"quantize.", "post_quant_conv.", "decoder."});
  const Model model = load_model(open_checkpoint(folder), *backend);
  EXPECT_EQ(usual_picture_tokenizer(*model.config.image, folder), folder);
  const std::vector<TokenId> codes = {3, 1, 4, 1, 5, 9, 2, 6};
  EXPECT_EQ(open_picture_decoder(model).decode(codes).rgb,
            open_picture_decoder(model, unpack("chameleon_vq.pt")).decode(codes).rgb);
}

TEST(PictureTokenizer, IsAskedForWhereAModelHasTheEncoderAlone) {
  const auto backend = make_reference_backend(1);
  const Model model = load_model(open_checkpoint(folder_with({"quantize.", "encoder."})), *backend);
  const std::string message = test::message_of([&] { open_picture_decoder(model); });
  EXPECT_NE(message.find("vq.safetensors: there is no such file; --vq names another"),
            std::string::npos)
      << message;
}

/// Janus's lies among its other tensors, without --vq for rules that compare codes, too.
TEST(PictureTokenizer, OfJanusIsInTheModelItself) {
  const auto backend = make_reference_backend(1);
  const fs::path file = unpack("janus/model.safetensors"), folder = file.parent_path();
  const Model without = load_model(open_checkpoint(folder), *backend);
  EXPECT_NE(test::message_of([&] { open_picture_decoder(without); }).find(kVqCodebook),
            std::string::npos);
  const Checkpoint model = open_checkpoint(file), vq = open_checkpoint(unpack("vq.pt"));
  std::vector<TensorToWrite> whole, alone;
  for (const StoredTensor& tensor : model.tensors)
    whole.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
  for (const StoredTensor& tensor : vq.tensors) {
    TensorToWrite part{tensor.name, tensor.type, tensor.shape, tensor.bytes};
    if (tensor.name == kVqCodebook) {  // as many codes as the model has
      part.shape[0] = 24;
      part.bytes = part.bytes.first(24 * 8 * sizeof(float));
    }
    alone.push_back(part);
    part.name.insert(0, kJanusVq);
    whole.push_back(part);
  }
  const fs::path other = folder / "alone.vq";
  write_safetensors(other, alone);
  write_safetensors(file, whole);
  const Model janus = load_model(open_checkpoint(folder), *backend);
  const std::vector<TokenId> codes = {1, 5, 2, 23, 0, 4, 9, 9, 3, 7, 1, 2};
  EXPECT_EQ(open_picture_decoder(janus).values(codes),
            open_picture_decoder(janus, other).values(codes));
  EXPECT_EQ(codebook_of(janus, "")(), folder);
  EXPECT_EQ(codebook_of(janus, other)(), other);
  EXPECT_NE(test::message_of([&] { codebook_of(janus, folder / "none")(); }).find("no such file"),
            std::string::npos);
}

}  // namespace
}  // namespace talon::picture_tokenizer_test
