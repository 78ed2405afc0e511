#include "load_sources.h"

#include <cstdlib>
#include <map>

#include "io/formats/write_safetensors.h"
#include "io/test_pictures.h"
#include "maker_data.h"
#include "models.h"
#include "random_heads.h"

namespace talon::fuzz {
namespace {

namespace fs = std::filesystem;

/// Each is unpacked once.
const MakerRecording& maker(const std::string& family) {
  static std::map<std::string, MakerRecording> unpacked;
  const auto known = unpacked.find(family);
  return known != unpacked.end() ? known->second
                                 : unpacked.emplace(family, unpack_maker(family)).first->second;
}

fs::path golden_folder(const std::string& name) { return TALON_TEST_DATA "/golden/" + name; }
fs::path itself(const std::string& path) { return path; }
fs::path maker_folder(const std::string& family) { return maker(family).folder; }
fs::path maker_gguf(const std::string& family) { return maker(family).gguf; }
fs::path maker_mtp_gguf(const std::string& family) { return maker(family).mtp_gguf; }
fs::path quantized_folder(const std::string& name) {
  static std::map<std::string, fs::path> unpacked;
  fs::path& folder = unpacked[name];
  if (folder.empty()) folder = unpack_quantized(name).folder;
  return folder;
}

fs::path picture_folder(const std::string& name) {
  return test::unpack_picture("load_fuzz", name + "/model.safetensors").parent_path();
}
/// A .pt file with the same tensors as safetensors. Of models the name tells the grid.
fs::path picture_file(const std::string& name) {
  static std::map<std::string, fs::path> written;
  fs::path& file = written[name];
  if (!file.empty()) return file;
  const Checkpoint stored = open_checkpoint(test::unpack_picture("load_fuzz", name + ".pt"));
  file = stored.path.parent_path() / (name + "_256.safetensors");
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : stored.tensors)
    tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
  write_safetensors(file, tensors);
  return file;
}

constexpr const char* kFamilies[] = {"qwen3_moe",            // experts
                                     "gpt_oss",              // experts with biases, sinks, windows
                                     "deepseek_v3",          // latents, groups of experts
                                     "qwen3_next",           // states, experts
                                     "qwen3_5",              // states
                                     "granite4_hybrid_moe",  // states of Mamba-2, experts
                                     "lfm2_moe",             // short convolutions, experts
                                     "falcon_h1",            // attention and states together
                                     "nemotron_h_moe",       // layers of one part each, experts
                                     "gemma4_e",  // layers that share a cache, per-layer embeddings
                                     "mimo"};  // values smaller than keys, key-value heads by layer

constexpr const char* kPictureFolders[] = {"words",    // Talon's own
                                           "lantern",  // captions
                                           "anole",    // norms of heads, codes among tokens
                                           "lumina",   // rows with ends
                                           "janus"};   // codes through networks

constexpr const char* kQuantized[] = {"gptq",
                                      "awq",
                                      "compressed_int4",
                                      "compressed_int4_asym",
                                      "compressed_fp8",
                                      "fp8_blocks",
                                      "mlx",
                                      "mlx_mxfp4",
                                      "mlx_nvfp4",
                                      "mlx_mxfp8"};

}  // namespace

/// GoogleTest's folder, into which models are unpacked, is this one.
LoadSources::LoadSources() {
  ::setenv("TEST_TMPDIR", folder_.path().c_str(), 1);
  all_ = {{"stories260k/target", golden_folder},
          {"stories260k/eagle1_head", golden_folder, "eagle"},
          {"stories260k/eagle1_head", golden_folder, "eagle2"},
          {"stories260k/eagle3_head", golden_folder, "eagle3"},
          {"stories260k/eagle3_head_fullvocab", golden_folder, "eagle3"},
          {"blocks/dflash/head", golden_folder, "dflash"},
          {"blocks/dspark/head", golden_folder, "dspark"},
          {"blocks/peagle/head", golden_folder, "peagle"},
          {"deepseek_v3", maker_folder, "mtp", "deepseek_v3"},
          {"qwen3_5", maker_folder, "mtp", "qwen3_5"},
          {"mimo", maker_mtp_gguf, "mtp", "mimo"}};
  for (const char* family : kFamilies) {
    all_.push_back({family, maker_folder});
    all_.push_back({family, maker_gguf});
  }
  for (const char* name : kQuantized) all_.push_back({name, quantized_folder});
  for (const char* name : kPictureFolders) all_.push_back({name, picture_folder});
  for (const char* name : {"c2i", "t2i_256"}) all_.push_back({name, picture_file});
  for (const char* name : {"vq", "chameleon_vq"})
    all_.push_back({.name = name, .path = picture_file, .draws_pixels = true});
  const ModelConfig& stories = target_of(all_.front()).model.config;
  for (const fs::path& head : test::write_random_heads(folder_.path() / "heads", stories)) {
    if (head.filename() == "medusa") all_.push_back({head.string(), itself, "medusa"});
  }
  for (const MarkovKind markov : {MarkovKind::gated, MarkovKind::rnn}) {
    const fs::path head = folder_.path() / "heads" / name_of(markov);
    test::write_random_dspark(head, stories, markov);
    all_.push_back({head.string(), itself, "dspark"});
  }
}

test::TestModel& LoadSources::target_of(const LoadSource& source) {
  std::unique_ptr<test::TestModel>& model = targets_[source.target];
  if (model) return *model;
  const fs::path path = source.target.empty() ? test::kStories260k : maker_folder(source.target);
  model = std::make_unique<test::TestModel>(path, test::cpu_backend(1));
  return *model;
}

}  // namespace talon::fuzz
