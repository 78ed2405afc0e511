#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/options/opened_model.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress_meter.h"
#include "convert/convert_model.h"
#include "core/error.h"
#include "draft/block/block_config.h"
#include "draft/block/write_gguf_block.h"
#include "draft/gemma4_assistant/assistant_config.h"
#include "draft/head/gguf_head.h"
#include "draft/head/head_tensors.h"
#include "io/quote.h"
#include "runtime/heads/head_kind.h"

namespace talon {
namespace {

/// As it is: for a model what changes no value, for a head q8_0.
enum class Stored { as_it_is, q8_0, q4_1, f16, bf16, f32 };

std::optional<StorageType> storage_type(Stored stored) {
  switch (stored) {
    case Stored::as_it_is:
      return std::nullopt;
    case Stored::q8_0:
      return StorageType::q8_0;
    case Stored::q4_1:
      throw UsageError("--type: expected keep, q8_0, f16, bf16 or f32 of a model, got q4_1");
    case Stored::f16:
      return StorageType::f16;
    case Stored::bf16:
      return StorageType::bf16;
    case Stored::f32:
      break;
  }
  return StorageType::f32;
}

HeadStorage head_storage(Stored stored) {
  if (stored == Stored::bf16)
    throw UsageError("--type: expected q8_0, q4_1, f16 or f32 of a draft head, got bf16");
  if (stored == Stored::q4_1) return HeadStorage::q4_1;
  if (stored == Stored::f16) return HeadStorage::f16;
  return stored == Stored::f32 ? HeadStorage::f32 : HeadStorage::q8_0;
}

std::string summary(const ConvertReport& report) {
  std::vector<std::string> types;
  int tensors = 0;
  for (const auto& [type, count] : report.tensors) {
    types.push_back(fmt::format("{} {}", count, name_of(type)));
    tensors += count;
  }
  return fmt::format("{}, {} tensors ({}), {}", report.architecture, tensors,
                     fmt::join(types, ", "), bytes_text(static_cast<double>(report.bytes)));
}

class Convert : public Command {
 public:
  explicit Convert(CLI::App& parent)
      : Command(parent.add_subcommand("convert",
                                      "a model or a draft head of any format to one GGUF file")) {
    app_->add_option("source", source_.model,
                     "a model's or a draft head's file or folder, or a catalogue name")
        ->type_name("MODEL|HEAD")
        ->required();
    app_->add_option("-o,--out", out_, "the GGUF file")->type_name("FILE")->required();
    add_choice<Stored>(*app_, "--store,--type", stored_,
                       {{"keep", Stored::as_it_is},
                        {"q8_0", Stored::q8_0},
                        {"q4_1", Stored::q4_1},
                        {"f16", Stored::f16},
                        {"bf16", Stored::bf16},
                        {"f32", Stored::f32}},
                       "how matrices are stored; keep: of a model as they are, in the smallest "
                       "type that changes no value, of a head q8_0; q4_1 for heads alone");
    app_->add_option("-m,--model", target_.model, "of a draft head: the model that it drafts for")
        ->type_name("MODEL");
    app_->add_flag("--shared-output", shared_output_,
                   "of a draft head: leave its output rows out where they are the model's, as "
                   "trained by talon; half the size; of an EAGLE head not for llama.cpp");
    add_models_folder_flag(*app_, source_.models_folder);
  }

  int run() override {
    const Checkpoint source = open_checkpoint(resolve_model(source_of(source_)));
    refuse_other_heads(source);
    return is_draft_head(source) ? convert_head(source) : convert_whole(source);
  }

 private:
  void refuse_other_heads(const Checkpoint& source) const {
    if (is_gemma4_assistant(source)) {
      fail(
          "convert {}: expected a model or another draft head, found Gemma 4's assistant, which "
          "llama.cpp's converter brings into GGUF",
          quote(source_.model));
    }
    const std::string kind = kind_of_head(source);
    if (kind != "medusa" && kind != "peagle") return;
    fail(
        "convert {}: expected a model or a draft head of a kind that GGUF files hold (EAGLE, "
        "DFlash, DSpark), found a {} head, for which llama.cpp has no architecture",
        quote(source_.model), kind);
  }

  int convert_head(const Checkpoint& head) {
    if (target_.model.empty()) {
      throw UsageError(fmt::format("convert {}: expected -m MODEL, which this draft head is for",
                                   quote(source_.model)));
    }
    target_.models_folder = source_.models_folder;
    const Checkpoint target = open_checkpoint(resolve_model(source_of(target_)));
    for (const Checkpoint* read : {&head, &target}) refuse_own_file(*read, out_);
    const InterruptGuard interrupt;
    const auto write_head = is_block_head(head) ? write_gguf_block : write_gguf_head;
    const bool is_whole =
        write_head(head, target, head_storage(stored_), out_,
                   shared_output_ ? HeadOutput::of_target : HeadOutput::in_file, &interrupt.stop());
    if (!is_whole) return say_interrupted();
    const std::string kind = kind_of_head(open_checkpoint(out_));
    say_what_llama_cpp_lacks(head, target, kind);
    note("{} written: run it with talon run -m MODEL -d {}:head={}", quote(out_), kind, out_);
    return kExitDone;
  }

  /// Of a file that it loads: not of EAGLE-1's and -2's.
  void say_what_llama_cpp_lacks(const Checkpoint& head, const Checkpoint& target,
                                std::string_view kind) const {
    if (kind == "eagle2") return;
    if (target.format != CheckpointFormat::gguf) {
      note("note: {} is no GGUF file, so {} has no tokenizer, which llama.cpp wants there",
           quote(target_.model), quote(out_));
    }
    if (kind == "dflash" && read_block_config(head, block_tensors(head)).root_predicts) {
      note("note: the row of the newest token guesses, too, which llama.cpp passes over");
    }
  }

  int convert_whole(const Checkpoint& model) const {
    if (shared_output_) throw UsageError("--shared-output is for a draft head, found a model");
    if (!target_.model.empty()) {
      throw UsageError(
          fmt::format("convert {}: -m is for a draft head, found a {} without \"fc.weight\"",
                      quote(source_.model), name_of(model.format)));
    }
    const InterruptGuard interrupt;
    ProgressMeter meter("convert", ProgressMeter::Unit::bytes);
    ConvertOptions options;
    options.type = storage_type(stored_);
    options.stop = &interrupt.stop();
    options.progress = [&](std::uint64_t done, std::uint64_t total) { meter.update(done, total); };
    try {
      const ConvertReport report = convert_model(model, out_, options);
      for (const std::string& line : report.notes) note("note: {}", line);
      note("{} written: {}", quote(out_), summary(report));
    } catch (const Interrupted&) {
      return say_interrupted();
    }
    return kExitDone;
  }

  int say_interrupted() const {
    note("talon: convert {}: interrupted, nothing is left behind", source_.model);
    return kExitInterrupted;
  }

  ModelOptions source_, target_;
  std::string out_;
  bool shared_output_ = false;
  Stored stored_ = Stored::as_it_is;
};

}  // namespace

std::unique_ptr<Command> make_convert(CLI::App& parent) {
  return std::make_unique<Convert>(parent);
}

}  // namespace talon
