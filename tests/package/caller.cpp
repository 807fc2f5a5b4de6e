/* caller.cpp: a program in C++ whose kernels are in a library of the user's: consumer.cu. */
int consumer_main();

int main() {
    return consumer_main();
}
