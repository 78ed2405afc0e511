#include "cli/train/train_image.h"

#include "cli/options/flags.h"
#include "cli/train/train_flags.h"

namespace talon {
namespace {

class TrainImage : public Command {
 public:
  TrainImage(CLI::App& parent, TrainImageRunner run)
      : Command(parent.add_subcommand("image", "train an image tokenizer and an image model")),
        run_(std::move(run)) {
    app_->require_subcommand(1);
    add_tokenizer();
    add_codes();
    add_model();
    add_features();
    add_compare();
  }

  int run() override {
    for (std::string* precision : {&tokenizer_.schedule.precision, &codes_.precision,
                                   &model_.schedule.precision, &features_.schedule.precision}) {
      *precision = precision_on("cpu", *precision);
    }
    if (tokenizer_app_->parsed()) return run_(tokenizer_);
    if (codes_app_->parsed()) return run_(codes_);
    if (model_app_->parsed()) return run_(model_);
    return features_app_->parsed() ? run_(features_) : run_(compare_);
  }

 private:
  static void add_data(CLI::App& app, std::string& data) {
    app.add_option("--data", data, "folder of pictures that scripts/icons.mjs made")
        ->type_name("FOLDER")
        ->required();
  }

  static void add_shift(CLI::App& app, int& shift) {
    add_int(app, "--shift", shift, 0, 64, "most pixels that a picture is moved by");
  }

  static void add_schedule(CLI::App& app, ImageSchedule& schedule) {
    const char* group = "Schedule";
    add_out_flag(app, schedule.out, "folder for checkpoint, curves and result; gone on with");
    app.add_option("--start", schedule.start,
                   "checkpoint of another run of the same shape, whose values are begun with, with "
                   "all steps from the beginning")
        ->type_name("FILE")
        ->group(group);
    add_real(app, "--epochs", schedule.epochs, 0.001, 1e6, "passes over the pictures")
        ->group(group);
    add_int(app, "--batch", schedule.batch, 1, 1 << 16, "pictures of a step")->group(group);
    add_real(app, "--rate", schedule.rate, 0, 1, "highest learning rate")->group(group);
    add_int(app, "--warmup", schedule.warmup, 0, kMany, "iterations to the highest rate")
        ->group(group);
    add_real(app, "--clip", schedule.clip, 0, 1e6, "largest norm of the gradient, 0 for no limit")
        ->group(group);
    add_real(app, "--weight-decay", schedule.weight_decay, 0, 1, "of AdamW")->group(group);
    add_count(app, "--seed", schedule.seed, "of order, views and initial values")->group(group);
    add_int(app, "--log-every", schedule.log_every, 1, kMany, "iterations")->group("Work");
    add_int(app, "--evaluate-every", schedule.evaluate_every, 1, kMany, "iterations")
        ->group("Work");
    add_int(app, "--checkpoint-every", schedule.checkpoint_every, 1, kMany, "iterations")
        ->group("Work");
    add_int(app, "--threads", schedule.threads, 1, 1024, "of training")->group("Work");
    schedule.precision = "auto";
    add_precision_flag(app, schedule.precision);
  }

  void add_tokenizer() {
    CLI::App& app = *app_->add_subcommand("tokenizer", "learn to make codes of pictures and back");
    tokenizer_app_ = &app;
    add_data(app, tokenizer_.data);
    add_schedule(app, tokenizer_.schedule);
    const char* size = "Size";
    add_int(app, "--channels", tokenizer_.channels, 32, 1024, "of the finest level")->group(size);
    const char* multipliers = "--multipliers";
    app.add_option_function<std::string>(
           multipliers,
           [=, this](const std::string& text) {
             tokenizer_.multipliers.clear();
             for (const std::string& word : split_list(multipliers, text)) {
               tokenizer_.multipliers.push_back(
                   static_cast<int>(parse_int(multipliers, word, 1, 64)));
             }
           },
           "of the channels, a level each, which halves the side of the one before it")
        ->type_name("N,N,...")
        ->default_str("1,2,2")
        ->group(size);
    add_int(app, "--blocks", tokenizer_.blocks, 1, 8, "of a level of the encoder")->group(size);
    add_int(app, "--latent", tokenizer_.latent, 1, 4096, "channels around the vectors")
        ->group(size);
    add_int(app, "--codes", tokenizer_.codes, 2, 32767, "of the codebook")->group(size);
    add_int(app, "--code-width", tokenizer_.code_width, 1, 1024, "numbers of a code")->group(size);
    add_shift(app, tokenizer_.shift);
    add_int(app, "--free-steps", tokenizer_.free_steps, 0, kMany,
            "first iterations, whose vectors are not made codes");
    const char* loss = "Loss, beside L1";
    add_real(app, "--commitment", tokenizer_.commitment, 0, 100, "weight")->group(loss);
    add_real(app, "--edges", tokenizer_.edges, 0, 100, "weight of differences of neighbours")
        ->group(loss);
    add_real(app, "--means", tokenizer_.means, 0, 100, "weight of means of cells")->group(loss);
  }

  void add_codes() {
    CLI::App& app = *app_->add_subcommand("codes", "make the codes of all pictures");
    codes_app_ = &app;
    add_data(app, codes_.data);
    app.add_option("--tokenizer", codes_.tokenizer,
                   "folder of talon train image tokenizer, or file of a published tokenizer "
                   "(LlamaGen's, Chameleon's, or that in a model of Janus)")
        ->type_name("FOLDER|FILE")
        ->required();
    add_out_flag(app, codes_.out, "folder of the codes; what is there is kept");
    add_int(app, "--views", codes_.views, 1, 1024, "of each picture, moved and mirrored");
    add_shift(app, codes_.shift);
    add_int(app, "--batch", codes_.batch, 1, 1 << 16, "pictures at once");
    add_count(app, "--seed", codes_.seed, "of the views");
    add_int(app, "--threads", codes_.threads, 1, 1024, "of the work")->group("Work");
    add_precision_flag(app, codes_.precision);
  }

  void add_model() {
    CLI::App& app = *app_->add_subcommand("model", "learn to draw codes, one after the other");
    model_app_ = &app;
    add_data(app, model_.data);
    app.add_option("--codes", model_.codes, "folder of talon train image codes")
        ->type_name("FOLDER")
        ->required();
    const char* categories = "--categories";
    app.add_option_function<std::string>(
           categories,
           [=, this](const std::string& text) { model_.categories = split_list(categories, text); },
           "only pictures of these; the model knows their words and no others")
        ->type_name("NAME,...");
    add_schedule(app, model_.schedule);
    const char* size = "Size";
    add_int(app, "--hidden", model_.hidden, 4, 1 << 16, "width")->group(size);
    add_int(app, "--layers", model_.layers, 1, 1024, "transformer layers")->group(size);
    add_int(app, "--head-dim", model_.head_dim, 4, 1024, "width of an attention head")->group(size);
    add_int(app, "--intermediate", model_.intermediate, 0, 1 << 20,
            "neurons of a layer, 0 for LlamaGen's")
        ->group(size);
    add_int(app, "--prefix", model_.prefix, 2, 64, "words and the style")->group(size);
    add_real(app, "--dropout", model_.dropout, 0, 0.9, "of the layers' outputs");
    add_real(app, "--unconditional", model_.unconditional, 0, 1, "share of pictures without words");
  }

  void add_features() {
    CLI::App& app = *app_->add_subcommand("features", "learn to tell what a picture shows");
    features_app_ = &app;
    add_data(app, features_.data);
    add_schedule(app, features_.schedule);
    add_int(app, "--width", features_.width, 32, 1024, "channels of the first layer");
    add_int(app, "--features", features_.features, 1, 1 << 16, "of a picture");
    add_shift(app, features_.shift);
  }

  void add_compare() {
    CLI::App& app = *app_->add_subcommand(
        "compare", "what a network of talon train image features says of drawn pictures");
    add_data(app, compare_.compare.data);
    app.add_option("--features", compare_.compare.features, "folder of talon train image features")
        ->type_name("FOLDER")
        ->required();
    app.add_option("--tokenizer", compare_.compare.tokenizer,
                   "folder of talon train image tokenizer: compare what it makes of real pictures")
        ->type_name("FOLDER");
    app.add_option("--bench", compare_.bench,
                   "JSON lines of talon bench image --pictures: compare its pictures")
        ->type_name("FILE");
    const char* sets = "--sets";
    app.add_option_function<std::string>(
           sets,
           [=, this](const std::string& text) { compare_.compare.sets = split_list(sets, text); },
           "further folders of pictures that talon image drew")
        ->type_name("FOLDER,...");
    app.add_option("--report", compare_.report, "also write pictures.html, .md and .jsonl there")
        ->type_name("DIR");
    add_int(app, "--threads", compare_.compare.threads, 1, 1024, "of the work")->group("Work");
    app.add_flag("--json")->description("JSON lines, which is what it always prints");
  }

  TrainImageRunner run_;
  CLI::App *tokenizer_app_ = nullptr, *codes_app_ = nullptr, *model_app_ = nullptr,
           *features_app_ = nullptr;
  TokenizerOptions tokenizer_;
  CodesOptions codes_;
  ImageModelOptions model_;
  FeaturesOptions features_;
  CompareRequest compare_;
};

}  // namespace

std::unique_ptr<Command> make_train_image(CLI::App& parent, TrainImageRunner run) {
  return std::make_unique<TrainImage>(parent, std::move(run));
}

}  // namespace talon
