// Targets and draft heads whose configuration, header or tensors are damaged, in folders and in
// GGUF files: each is refused with an Error or loads and decodes a little. A crash, a Bug or
// another exception is a finding.
// Options: seed_run.h.
#include <sys/resource.h>

#include <fstream>
#include <iterator>

#include "draft/registry.h"
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
      return source.name + (is_directory(whole) ? "" : " as GGUF") +
             (source.drafter.empty() ? "" : " for " + source.drafter) + ": " + wrong;
    };
    try {
      load(source,
           is_directory(whole) ? damaged_folder(whole, choose) : damaged_file(whole, choose));
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
  std::filesystem::path damaged_folder(const std::filesystem::path& whole, Chooser& choose) const {
    ModelFiles files{read(whole / "config.json"), read(whole / "model.safetensors")};
    damage(files, choose);
    const std::filesystem::path damaged = sources_.folder() / "damaged";
    std::filesystem::create_directories(damaged);
    write(damaged / "config.json", files.config);
    write(damaged / "model.safetensors", files.weights);
    return damaged;
  }

  std::filesystem::path damaged_file(const std::filesystem::path& whole, Chooser& choose) const {
    const std::filesystem::path damaged = sources_.folder() / "damaged.gguf";
    damage_gguf(whole, damaged, choose);
    return damaged;
  }

  void load(const LoadSource& source, const std::filesystem::path& damaged) {
    if (source.drafter.empty()) {
      TestModel target(damaged, test::cpu_backend(1));
      decode(target, "ngram");
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
    const auto vocabulary = static_cast<TokenId>(model.vocabulary());
    for (const TokenId token : {1, 313, 438, 347, 433}) {
      request.prompt.push_back(token < vocabulary ? token : vocabulary - 1);
    }
    request.max_new = 12;
    if (std::holds_alternative<Refusal>(engine.engine.submit(request))) return;
    while (!engine.engine.idle()) engine.engine.step();
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
