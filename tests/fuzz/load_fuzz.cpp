// Targets, draft heads and tokenizers of pictures whose configuration, header or tensors are
// damaged, in folders and in files: each is refused with an Error or loads and decodes a little. A
// crash, a Bug or another exception is a finding.
// Options: seed_run.h.
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "draft/registry.h"
#include "image/vq_decoder.h"
#include "load_sources.h"
#include "model_mutator.h"
#include "models.h"
#include "seed_run.h"

namespace talon::fuzz {
namespace {

using test::TestEngine;
using test::TestModel;

std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

bool is_weights(const std::filesystem::path& file) { return file.extension() == ".safetensors"; }

void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__)
  const rlimit limit{6UL << 30, 6UL << 30};
  setrlimit(RLIMIT_AS, &limit);
#endif
}

class LoadFuzzer {
 public:
  LoadFuzzer() { limit_memory(); }

  std::optional<std::string> run(std::uint64_t seed) {
    Chooser choose(seed);
    const LoadSource& source = choose.one_of(sources_.all());
    const std::filesystem::path whole = source.path(source.name);
    const auto found = [&](const std::string& wrong) {
      return source.name + (is_directory(whole) || is_weights(whole) ? "" : " as GGUF") +
             (source.drafter.empty() ? "" : " for " + source.drafter) + ": " + wrong;
    };
    try {
      load(source, damaged_copy(whole, choose));
    } catch (const Bug& bug) {
      return found(bug.what());
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    } catch (const std::exception& error) {
      return found(error.what());
    }
    return std::nullopt;
  }

 private:
  std::filesystem::path damaged_copy(const std::filesystem::path& whole, Chooser& choose) const {
    if (is_directory(whole)) return damaged_folder(whole, choose);
    return is_weights(whole) ? damaged_weights(whole, choose) : damaged_gguf(whole, choose);
  }

  std::filesystem::path damaged_folder(const std::filesystem::path& whole, Chooser& choose) const {
    ModelFiles files{read(whole / "config.json"), read(whole / "model.safetensors")};
    damage(files, choose);
    const std::filesystem::path damaged = sources_.folder() / "damaged";
    std::filesystem::create_directories(damaged);
    write(damaged / "config.json", files.config);
    write(damaged / "model.safetensors", files.weights);
    return damaged;
  }

  std::filesystem::path damaged_weights(const std::filesystem::path& whole, Chooser& choose) const {
    ModelFiles files{"{}", read(whole)};
    damage(files, choose);
    const std::filesystem::path damaged = sources_.folder() / whole.filename();
    write(damaged, files.weights);
    return damaged;
  }

  std::filesystem::path damaged_gguf(const std::filesystem::path& whole, Chooser& choose) const {
    const std::filesystem::path damaged = sources_.folder() / "damaged.gguf";
    damage_gguf(whole, damaged, choose);
    return damaged;
  }

  void load(const LoadSource& source, const std::filesystem::path& damaged) {
    if (source.draws_pixels) {
      constexpr int kSide = 4;
      const VqDecoder decoder(open_checkpoint(damaged), kSide, kSide);
      std::vector<TokenId> codes(kSide * kSide);
      for (std::size_t i = 0; i < codes.size(); ++i)
        codes[i] = static_cast<TokenId>(i) % std::max(1, decoder.codes());
      decoder.decode(codes);
    } else if (source.drafter.empty()) {
      TestModel target(damaged, test::cpu_backend(1));
      decode(target, target.model.config.image ? "jacobi" : "ngram");
    } else {
      decode(sources_.target_of(source),
             source.drafter + ":head=" + damaged.string() + ",nodes=20,levels=4");
    }
  }

  static void decode(TestModel& model, const std::string& drafter) {
    test::TestOptions options;
    options.policy = "fixed";
    TestEngine engine(model, make_drafter(drafter, {.target = &model.model}), options, 4);
    Request request;
    if (model.model.config.image) {
      ask_for_picture(model.model.config, request);
    } else {
      const auto vocabulary = static_cast<TokenId>(model.vocabulary());
      for (const TokenId token : {1, 313, 438, 347, 433})
        request.prompt.push_back(token < vocabulary ? token : vocabulary - 1);
    }
    request.max_new = 12;
    if (std::holds_alternative<Refusal>(engine.engine.submit(request))) return;
    while (!engine.engine.idle()) engine.engine.step();
  }

  /// With a guide.
  static void ask_for_picture(const ModelConfig& config, Request& request) {
    const int most = config.image->prompt_tokens, others = config.input_count() - config.vocabulary;
    const int length = config.image->prompts_vary() ? std::min(3, most) : most;
    for (int i = 0; others > 0 && i < length; ++i)
      request.prompt.push_back(config.vocabulary + i % others);
    request.guide_prompt = request.prompt;
    request.guidance = 2;
  }

  LoadSources sources_;
};

}  // namespace
}  // namespace talon::fuzz

int main(int argc, char** argv) {
  return talon::fuzz::run_seeds(argc, argv, [] {
    return [fuzzer = std::make_shared<talon::fuzz::LoadFuzzer>()](std::uint64_t seed) {
      return fuzzer->run(seed);
    };
  });
}
