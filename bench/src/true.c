// Start-up: nothing but a start and an end.
int main(void) { return 0; }
