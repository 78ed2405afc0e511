#include "cli/command.h"
#include "cli/options/flags.h"
#include "cli/options/session.h"
#include "cli/terminal/console.h"
#include "core/error.h"
#include "draft/eagle/gguf_head.h"
#include "draft/eagle/head_tensors.h"
#include "io/quote.h"

namespace talon {
namespace {

class Convert : public Command {
 public:
  explicit Convert(CLI::App& parent)
      : Command(parent.add_subcommand(
            "convert", "a draft head of any layout to a GGUF file, as llama.cpp reads it")) {
    app_->add_option("head", head_, "its file or folder")->type_name("FILE|FOLDER")->required();
    add_model_flag(*app_, target_);
    app_->add_option("-o,--out", out_, "the GGUF file")->type_name("FILE")->required();
    add_choice<HeadStorage>(
        *app_, "--store", storage_,
        {{"q8_0", HeadStorage::q8_0}, {"f16", HeadStorage::f16}, {"f32", HeadStorage::f32}},
        "how matrices are stored");
  }

  int run() override {
    const Checkpoint head = open_checkpoint(head_);
    if (!is_draft_head(head)) {
      fail("convert {}: expected an EAGLE draft head, found a {} without \"fc.weight\"",
           quote(head_), name_of(head.format));
    }
    const Checkpoint target = open_checkpoint(resolve_model(source_of(target_)));
    write_gguf_head(head, target, storage_, out_);
    note("{} written: run it with talon run -m MODEL -d eagle3:head={}", quote(out_), out_);
    return kExitDone;
  }

 private:
  std::string head_, out_;
  ModelOptions target_;
  HeadStorage storage_ = HeadStorage::q8_0;
};

}  // namespace

std::unique_ptr<Command> make_convert(CLI::App& parent) {
  return std::make_unique<Convert>(parent);
}

}  // namespace talon
