#include "ShardText.h"

#include "Table.h"

#include "ir/Blocks.h"
#include "support/Text.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace heterplan {

namespace {

/// "2 all-reduces, 1.5 MiB".
std::string collectiveText(ArrayRef<LayerCollective> collectives, bool backward, int64_t batch) {
  std::vector<std::string> texts;
  for (const LayerCollective &each : collectives) {
    if (each.backward != backward)
      continue;
    std::string count = each.count > 1 ? std::to_string(each.count) + " " : "";
    texts.push_back(count + nameOf(each.collective) + (each.count > 1 ? "s " : " ") +
                    readable(each.bytes(Samples(batch))));
  }
  return texts.empty() ? "-" : join(texts, ", ");
}

/// The part of the operations of the whole that a shard has.
std::string partText(Flops part, Flops whole) {
  return whole == Flops() ? "-" : percent(part / whole);
}

/// Adds the collectives of all layers.
std::vector<LayerCollective> totalOf(const ModelShard &sharded) {
  std::vector<LayerCollective> total;
  for (const Layer &layer : sharded.layers.layers)
    for (const LayerCollective &each : layer.shardCollectives) {
      auto found = find_if(total, [&](const LayerCollective &known) {
        return known.collective == each.collective && known.backward == each.backward;
      });
      if (found == total.end()) {
        total.push_back(each);
        continue;
      }
      found->count += each.count;
      found->bytesPerSample += each.bytesPerSample;
      found->fixedBytes += each.fixedBytes;
    }
  return total;
}

class ShardRows {
public:
  ShardRows(const LayerGraph &whole, const ModelShard &sharded, int64_t batch)
      : whole(whole), sharded(sharded), batch(batch) {}

  void layer(int index, StringRef indent = "") {
    const Layer &layer = sharded.layers.layers[index];
    ArrayRef<LayerCollective> collectives = layer.shardCollectives;
    table.row({indent.str() + shortened(layer.name),
               partText(layer.forwardFlops, whole.layers[index].forwardFlops),
               readable(layer.parameterBytes), readable(layer.activationBytes * double(batch)),
               collectiveText(collectives, false, batch),
               collectiveText(collectives, true, batch)});
  }

  void block(const RepeatedBlock &block) {
    table.row({std::to_string(block.count) + " × these layers:", "", "", "", "", ""});
    for (int index = block.first; index < block.first + block.layers; ++index)
      layer(index, "  ");
  }

  void print(raw_ostream &os) {
    Bytes activations;
    for (const Layer &layer : sharded.layers.layers)
      activations += layer.activationBytes;
    std::vector<LayerCollective> total = totalOf(sharded);
    table.rule();
    table.row({std::to_string(whole.size()) + (whole.size() == 1 ? " layer" : " layers"),
               partText(totalForwardFlops(sharded.layers), totalForwardFlops(whole)),
               readable(totalParameterBytes(sharded.layers)), readable(activations * double(batch)),
               collectiveText(total, false, batch), collectiveText(total, true, batch)});
    table.print(os);
  }

private:
  Table table{{"layer", ">FLOP fwd", ">parameters", ">activations", "forward", "backward"}};
  const LayerGraph &whole;
  const ModelShard &sharded;
  int64_t batch;
};

void writeCollectives(JsonWriter &json, ArrayRef<LayerCollective> collectives, int64_t batch) {
  json.attributeArray("collectives", [&] {
    for (const LayerCollective &each : collectives)
      json.object([&] {
        json.attribute("pass", each.backward ? "backward" : "forward");
        json.attribute("collective", nameOf(each.collective));
        json.attribute("count", each.count);
        json.attribute("bytes", each.bytes(Samples(batch)).value());
      });
  });
}

} // namespace

void printShards(raw_ostream &os, const LayerGraph &whole, const ModelShard &sharded, int64_t batch,
                 Repetitions repetitions) {
  os << "\neach of " << sharded.local.degree
     << " devices that share every layer (tensor parallelism):\n";
  ShardRows rows(whole, sharded, batch);
  addRows(rows, sharded.layers, repetitions);
  rows.print(os);
  int replicated = 0;
  for (int i = 0; i < whole.size(); ++i)
    replicated += whole.layers[i].forwardFlops > Flops() &&
                  sharded.layers.layers[i].forwardFlops == whole.layers[i].forwardFlops;
  if (replicated)
    os << replicated << (replicated == 1 ? " layer is" : " layers are")
       << " computed by every device as a whole\n";
}

void writeShards(JsonWriter &json, const ModelShard &sharded, int64_t batch) {
  auto facts = [&](Flops forward, Bytes parameters, Bytes activations) {
    json.attribute("forwardFlops", forward.value() * double(batch));
    json.attribute("parameterBytes", parameters.value());
    json.attribute("activationBytes", activations.value() * double(batch));
  };
  json.attributeObject("tensorParallel", [&] {
    json.attribute("degree", sharded.local.degree);
    json.attributeArray("layers", [&] {
      for (int i = 0; i < sharded.layers.size(); ++i)
        json.object([&] {
          const Layer &layer = sharded.layers.layers[i];
          json.attribute("name", layer.name);
          facts(layer.forwardFlops, layer.parameterBytes, layer.activationBytes);
          writeCollectives(json, layer.shardCollectives, batch);
        });
    });
    json.attributeObject("slices", [&] {
      for (TensorId id : sharded.local.slicedTensors())
        json.attributeObject(sharded.local.graph.tensors[id].name, [&] {
          json.attribute("axis", sharded.local.states[id].axis);
          json.attributeArray("segments", [&] {
            for (int64_t length : sharded.local.states[id].pattern)
              json.value(length);
          });
        });
    });
  });
}

} // namespace heterplan
